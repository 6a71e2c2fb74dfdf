#!/usr/bin/env python3
"""What `anemone tokenize --export` writes, read by Hugging Face's tokenizers: the same ids and the same text as ours.

    tokenizer_export.py build/release/anemone

The tokenizers are the GGUF vocabularies below the data folders, the demo model's, the SentencePiece models in
tests/data, two GGUF vocabularies made of these (kinds t5 and gemma4), and GPT-2's under every name of a pre-tokenizer.
The texts are those of the data folders and random ones. Where added tokens overlap, llama.cpp, and we with it, take the longest one and Hugging Face the first one;
the texts have none that do.
"""
import argparse
import glob
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

import roots

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEXTS = ["", " ", "  ", "a", "Hello, world!", "  leading and trailing  ", "don't we'LL I'd", "12345 3.14159 1,000",
         "x = [1, 2];\n\n\treturn x\r\n", "naïve façade déjà vu", "人工智能 機械 こんにちは 안녕 नमस्ते สวัสดี",
         "🚀👩\u200d💻 ½ x² ﬁ", "a\u0301e\u0300", "\u00a0\u3000\u2003tab\there", "CamelCaseWords_and_snake", "!!!???...",
         "0x1F <tag> </tag> {json: [1]}", "ẞßſ İıĲ ǅ", "word\n\n\n\nword", "     five", "<s>a</s>b", "[CLS] [SEP] [MASK]"]
# Letters, digits, marks, spaces and symbols of many scripts.
POOL = ("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789      \n\n\t.,;:!?'\"-_/()[]{}<>=+*&^%$#@~|\\`"
        "äöüßéèêçñøåÆŁžабвгдежзиклмнопрстяюαβγδεζηθ你好世界人工智能あいうえおカキクケコ한국어नमस्तेไทย🚀😀½²…–—“”‘’«»\u00a0\u200b")
PRE_TYPES = ("default llama-bpe dbrx glm4 deepseek-llm deepseek-coder deepseek-v3 youtu falcon gpt-2 starcoder jais-2 "
             "qwen2 qwen35 bloom viking tekken chameleon gpt-4o tiny_aya superbpe bailingmoe seed-coder kimi-k2 afmoe "
             "laguna exaone-moe minicpm5").split()


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False, **more)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def texts():
    out = list(TEXTS)
    for root in roots.data_roots():
        for path in glob.glob(os.path.join(root, "tokenizers", "texts.json")):
            with open(path, encoding="utf-8") as f:
                out += [entry["text"] for entry in json.load(f)]
        for path in glob.glob(os.path.join(root, "gguf_vocab", "*.inp")):
            with open(path, encoding="utf-8", newline="") as f:
                out += f.read().split("\n__ggml_vocab_test__\n")
    numbers = random.Random(14)
    for _ in range(300):
        out.append("".join(numbers.choice(POOL) for _ in range(numbers.randrange(1, 60))))
    return list(dict.fromkeys(out))


def with_pre_type(gguf, name):
    """The bytes of a GGUF vocabulary that names another pre-tokenizer."""
    key = b"tokenizer.ggml.pre"
    at = gguf.index(struct.pack("<Q", len(key)) + key) + 8 + len(key) + 4
    length = struct.unpack_from("<Q", gguf, at)[0]
    return gguf[:at] + struct.pack("<Q", len(name)) + name.encode() + gguf[at + 8 + length:]


def gguf_value(value):
    """A value of a GGUF file with its type: a text, a truth, or a list of texts, floats or whole numbers."""
    if isinstance(value, str):
        return struct.pack("<IQ", 8, len(value.encode())) + value.encode()
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    kind = 8 if isinstance(value[0], str) else 6 if isinstance(value[0], float) else 5
    one = {8: lambda v: struct.pack("<Q", len(v.encode())) + v.encode(), 6: lambda v: struct.pack("<f", v),
           5: lambda v: struct.pack("<i", v)}[kind]
    return struct.pack("<IIQ", 9, kind, len(value)) + b"".join(one(v) for v in value)


def write_gguf(path, values):
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)))
        for key, value in values.items():
            f.write(struct.pack("<Q", len(key)) + key.encode() + gguf_value(value))
        f.write(b"\0" * 64)


def piece_types(pieces):
    """2: unknown, 3: control, 4: given by the user, 6: a byte, 1: all others."""
    kinds = {"<unk>": 2, "<s>": 3, "</s>": 3, "<sep>": 4}
    return [kinds.get(p, 6 if p.startswith("<0x") and len(p) == 6 else 1) for p in pieces]


def made_of_sentencepiece(command, folder):
    """The pieces of our SentencePiece models in GGUF: a unigram model, and a BPE over characters with merges."""
    exported = os.path.join(folder, "pieces.json")
    for model, kind in (("unigram", "t5"), ("bpe", "gemma4")):
        source = os.path.join(SOURCE, "tests", "data", f"sentencepiece_{model}.model")
        run([command, "tokenize", source, "--export", exported, "--quiet"])
        with open(exported, encoding="utf-8") as f:
            written = json.load(f)["model"]
        values = {"general.architecture": "test", "tokenizer.ggml.model": kind}
        if kind == "t5":
            pieces = [p for p, _ in written["vocab"]]
            values["tokenizer.ggml.scores"] = [float(s) for _, s in written["vocab"]]
            values["tokenizer.ggml.add_space_prefix"] = True
            values["tokenizer.ggml.remove_extra_whitespaces"] = True
        else:
            pieces = sorted(written["vocab"], key=written["vocab"].get)
            values["tokenizer.ggml.merges"] = written["merges"]
        values["tokenizer.ggml.tokens"] = pieces
        values["tokenizer.ggml.token_type"] = piece_types(pieces)
        made = os.path.join(folder, f"{kind}.gguf")
        write_gguf(made, values)
        yield made


def sources(command, folder):
    yield os.path.join(SOURCE, "examples", "demo_model", "demo.gguf")
    yield from sorted(glob.glob(os.path.join(SOURCE, "tests", "data", "*.model")))
    yield from made_of_sentencepiece(command, folder)
    for root in roots.data_roots():
        for path in sorted(glob.glob(os.path.join(root, "gguf_vocab", "*.gguf"))):
            yield path
            if path.endswith("gpt-2.gguf"):
                with open(path, "rb") as f:
                    gguf = f.read()
                for name in PRE_TYPES:
                    made = os.path.join(folder, f"pre-{name}.gguf")
                    with open(made, "wb") as f:
                        f.write(with_pre_type(gguf, name))
                    yield made
                    os.remove(made)


def lines(command, source, items, *flags):
    said = run([command, "tokenize", source, "--lines", *flags], input="\n".join(json.dumps(i) for i in items) + "\n")
    return [json.loads(line) for line in said.split("\n") if line]


def llama_reads_as_bert(text):
    """llama.cpp takes the first part of a character's decomposition, also of Hangul, and drops marks of all kinds.
    The file that we write is BERT's own tokenizer there."""
    return not any(unicodedata.category(c)[0] == "M" or "\uac00" <= c <= "\ud7a3" for c in text)


def compare(command, source, exported, given, tokenizer_class):
    """How many of the texts differ, with the first of them."""
    run([command, "tokenize", source, "--export", exported, "--quiet"])
    theirs = tokenizer_class.from_file(exported)
    plain, special = lines(command, source, given), lines(command, source, given, "--add-special")
    decoded = lines(command, source, plain, "--decode")
    # BERT's decoder tidies white space; ours gives llama.cpp's text.
    word_piece = json.loads(theirs.to_str())["model"]["type"] == "WordPiece"
    faults = []
    for text, ids, whole, back in zip(given, plain, special, decoded):
        if word_piece and not llama_reads_as_bert(text):
            continue
        got = theirs.encode(text, add_special_tokens=False).ids
        if got != ids:
            faults.append(f"{text!r}: {ids} here, {got} there")
        elif theirs.encode(text).ids != whole:
            faults.append(f"{text!r} with special tokens: {whole} here, {theirs.encode(text).ids} there")
        elif not word_piece and theirs.decode(ids, skip_special_tokens=False) != back:
            faults.append(f"{ids}: {back!r} here, {theirs.decode(ids, skip_special_tokens=False)!r} there")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("anemone")
    parser.add_argument("--show", type=int, default=3, help="how many of a tokenizer's differences are printed")
    options = parser.parse_args()
    try:
        from tokenizers import Tokenizer
    except ImportError:
        print("skipped: the package tokenizers is not installed; tools/venv.sh does that")
        return 77
    given, bad, seen = texts(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for source in sources(options.anemone, folder):
            faults = compare(options.anemone, source, os.path.join(folder, "tokenizer.json"), given, Tokenizer)
            seen += 1
            bad += len(faults) > 0
            print(f"{os.path.basename(source)}: {len(given) - len(faults)} of {len(given)} texts alike", flush=True)
            for fault in faults[:options.show]:
                print(f"  {fault}")
    print(f"{seen} tokenizers, {bad} differ")
    return 1 if bad or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
