#!/usr/bin/env python3
"""What bench_tokenize prints, for Hugging Face tokenizers (tokenizer.json, or a byte-level GGUF rebuilt) and llama.cpp
(GGUF; llama-cpp-python): one thread, CPU time, and the same checksum of the ids.

    tokenize_peers.py SOURCE TEXT.txt [--pre smollm|qwen2|gpt2] [--runs 5]
"""
import argparse
import os
import statistics
import time

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
         r"\s+(?!\S)|\s+")


def timed(work):
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def report(name, load, times, size, ids):
    seconds, checksum = statistics.median(times), 0
    for i in ids:
        checksum = (checksum * 31 + i) % 2**64
    print(f"{name}\nload     {load * 1e3:.1f} ms\nencode   {size / seconds / 1e6:.2f} MB/s, "
          f"{len(ids) / seconds / 1e6:.2f} Mtok/s (first run {size / times[0] / 1e6:.2f} MB/s); {len(ids)} tokens, "
          f"checksum {checksum:016x}")


def hf_from_gguf(path, pre):
    from gguf import GGUFReader
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers as P
    fields = GGUFReader(path).fields
    merges = [tuple(m.split(" ", 1)) for m in fields["tokenizer.ggml.merges"].contents()]
    t = Tokenizer(models.BPE({s: i for i, s in enumerate(fields["tokenizer.ggml.tokens"].contents())}, merges))
    if pre == "smollm":
        t.pre_tokenizer = P.Sequence([P.Digits(True), P.ByteLevel(False)])
    elif pre == "qwen2":
        t.pre_tokenizer = P.Sequence([P.Split(Regex(QWEN2), "isolated"), P.ByteLevel(False, use_regex=False)])
    else:
        t.pre_tokenizer = P.ByteLevel(False)
    return t


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("text")
    parser.add_argument("--pre", default="smollm")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with open(args.text, encoding="utf-8", newline="") as f:
        text = f.read()
    raw = text.encode()

    from tokenizers import Tokenizer
    gguf = args.source.endswith(".gguf")
    load, hf = timed(lambda: hf_from_gguf(args.source, args.pre) if gguf else Tokenizer.from_file(args.source))
    runs = [timed(lambda: hf.encode(text, add_special_tokens=False).ids) for _ in range(args.runs)]
    report("Hugging Face tokenizers", load, [r[0] for r in runs], len(raw), runs[-1][1])
    if not gguf:
        return
    import llama_cpp
    load, model = timed(lambda: llama_cpp.Llama(args.source, vocab_only=True, verbose=False))
    runs = [timed(lambda: model.tokenize(raw, add_bos=False, special=True)) for _ in range(args.runs)]
    report("llama.cpp", load, [r[0] for r in runs], len(raw), runs[-1][1])


if __name__ == "__main__":
    main()
