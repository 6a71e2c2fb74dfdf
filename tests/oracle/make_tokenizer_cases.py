#!/usr/bin/env python3
"""Write tests/data/tokenizer_cases.json: small tokenizers that use every component of tokenizer.json once, and what
Hugging Face tokenizers 0.23.3 makes of some texts with them.

    make_tokenizer_cases.py tests/data/tokenizer_cases.json
"""
import json
import sys

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders as D, models as M, normalizers as N, pre_tokenizers as P, processors as R, trainers as T

CORPUS = ["The small boat left the harbour before sunrise. Nobody saw it, and nobody asked where it went.",
          "She can't, they're late, we'll see; it's 12345 or 3.14159 — déjà vu, naïve façade.",
          "for x in range(10):\n    print(x + 1)\n\nreturn total",
          "Быстрая лиса 人工智能 機械 안녕 नमस्ते x² 🚀"] * 3
# Characters whose class or form is not the same in every Unicode version, and neighbours of such.
AGES = ["a\u32ffb", "x\u0301\u1dfa\u0316", "\u0345\u0363 \u08d3\u07fd", "\U00011938 \U0001e030", "\ua7ce\ua7d2\U00016ea0", "a\u061db\u166dc\u2e43",
        "1\U00011de02", "\u00b2\u00bd\u180e \U0001fac6 \u1c89\u1c8a", "\u0890\u08e2", "\u3001\u3007\u4e00\U0002b739", "09afFG h\x0bv", "a-\u2028 b"]
TEXTS = ["", " ", "  a  b ", "The boat", "the boats left, didn't they?", "Hello WORLD  foo bar", "1 22 333 4096 3.14",
         "a\n\n b\t\r\nc", "naïve façade DÉJÀ VU", "e\u0301 ﬁ ½ Å", "人工智能 安녕 नमस्ते", "🚀👩\u200d💻", "x²+y²", "<s>the<|a|>  boat</s>",
         "it's IT'S we'Ll", "\u2581a \u2581", "\u00a0\u3000x\u200b", "[MASK] [UNK]", "don't do not . , !", "Straße ǅ İ"]
BYTES = [f"<0x{b:02X}>" for b in range(256)]
SPECIAL = ["<unk>", "<s>", "</s>"]


def bpe(pre, norm=None, dec=None, size=170, special=SPECIAL, alphabet=(), **model):
    t = Tokenizer(M.BPE(**model))
    if norm:
        t.normalizer = norm
    if pre:
        t.pre_tokenizer = pre
    affixes = {k: v for k, v in model.items() if k in ("continuing_subword_prefix", "end_of_word_suffix")}
    t.train_from_iterator(CORPUS, T.BpeTrainer(vocab_size=size, special_tokens=list(special), show_progress=False,
                                               initial_alphabet=list(alphabet), **affixes))
    if dec:
        t.decoder = dec
    return t


def byte_level(pre, size=330, **more):
    return bpe(pre, dec=D.ByteLevel(), alphabet=sorted(P.ByteLevel.alphabet()), size=size, **more)


def with_post(t, post):
    t.post_processor = post
    return t


def word_piece():
    t = Tokenizer(M.WordPiece(unk_token="[UNK]", max_input_chars_per_word=12))
    t.normalizer, t.pre_tokenizer, t.decoder = N.BertNormalizer(), P.BertPreTokenizer(), D.WordPiece()
    t.train_from_iterator(CORPUS, T.WordPieceTrainer(vocab_size=170, show_progress=False,
                                                     special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    return with_post(t, R.BertProcessing(("[SEP]", 3), ("[CLS]", 2)))


def unigram(byte_fallback):
    t = Tokenizer(M.Unigram())
    t.normalizer = N.Sequence([N.Nmt(), N.NFKC(), N.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer, t.decoder = P.Metaspace(), D.Metaspace()
    special = SPECIAL + (BYTES if byte_fallback else [])
    t.train_from_iterator(CORPUS, T.UnigramTrainer(vocab_size=120 + len(special), special_tokens=special,
                                                   unk_token="<unk>", show_progress=False))
    spec = json.loads(t.to_str())
    spec["model"]["byte_fallback"] = byte_fallback
    t = Tokenizer.from_str(json.dumps(spec))
    return with_post(t, R.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)]))


def old_unicode(norm, pre=None):
    return byte_level(P.Sequence(([pre] if pre else []) + [P.ByteLevel(add_prefix_space=True, use_regex=False)]), norm=norm, size=259)


def removing(pattern):
    return byte_level(P.Sequence([P.Split(Regex(pattern), "removed"), P.ByteLevel(False, use_regex=False)]), size=259)


def touching():  # tokens that strip what the one before has eaten, and one whose own text is not what decoding sees
    t = byte_level(P.ByteLevel(add_prefix_space=False), norm=N.BertNormalizer(lowercase=False))
    t.add_tokens([AddedToken("  ", lstrip=True, rstrip=True, normalized=False), AddedToken("the", rstrip=True, normalized=False),
                  AddedToken(" b", normalized=False)])
    t.add_special_tokens([AddedToken("人", normalized=True)])
    return t


def word_level():
    t = Tokenizer(M.WordLevel(unk_token="<unk>"))
    t.pre_tokenizer = P.Whitespace()
    t.train_from_iterator(CORPUS, T.WordLevelTrainer(vocab_size=60, special_tokens=["<unk>"], show_progress=False))
    return t


def added():
    t = byte_level(P.ByteLevel(add_prefix_space=False), norm=N.Lowercase())
    t.add_tokens([AddedToken("Hello", single_word=True), AddedToken("the", lstrip=True, rstrip=True, normalized=False),
                  AddedToken("WORLD"), AddedToken("foo bar", rstrip=True)])
    t.add_special_tokens([AddedToken("<|a|>", rstrip=True, normalized=False), AddedToken("<|a", normalized=False)])
    return t


def ignoring_merges():
    spec = json.loads(byte_level(P.ByteLevel(add_prefix_space=False)).to_str())
    spec["model"]["ignore_merges"] = True
    spec["model"]["vocab"]["Ġboats"] = len(spec["model"]["vocab"])
    return Tokenizer.from_str(json.dumps(spec))


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")


def cases():
    unk = {"unk_token": "<unk>"}
    roberta = R.RobertaProcessing(("</s>", 2), ("<s>", 1))
    both = R.Sequence([R.ByteLevel(), R.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])])
    yield "byte level", with_post(byte_level(P.ByteLevel(add_prefix_space=True)), roberta)
    yield "digits", with_post(byte_level(P.Sequence([P.Digits(True), P.ByteLevel(add_prefix_space=False)]), norm=N.NFC()), both)
    yield "llama 3", byte_level(P.Sequence([P.Split(Regex(LLAMA3), "isolated"), P.ByteLevel(False, use_regex=False)]))
    yield "bytes, then digits", byte_level(P.Sequence([P.ByteLevel(False), P.Digits(False)]))
    yield "bytes as a normalizer", byte_level(P.Split(" ", "merged_with_next"), norm=N.Sequence([N.NFKD(), N.ByteLevel()]))
    yield "ignore merges", ignoring_merges()
    yield "end of word", bpe(P.BertPreTokenizer(), N.BertNormalizer(lowercase=False), D.BPEDecoder(), end_of_word_suffix="</w>", **unk)
    yield "continuing", bpe(P.Whitespace(), dec=D.WordPiece("##"), continuing_subword_prefix="##", fuse_unk=True, **unk)
    yield "no decoder", bpe(P.WhitespaceSplit(), **unk)
    yield "byte fallback", bpe(None, N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]),
                               D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]),
                               size=420, special=SPECIAL + BYTES, fuse_unk=True, byte_fallback=True, **unk)
    for scheme in ("first", "always", "never"):
        meta = P.Metaspace(prepend_scheme=scheme, split=scheme != "first")
        yield f"metaspace {scheme}", bpe(meta, dec=D.Metaspace(prepend_scheme=scheme), fuse_unk=True, **unk)
    for behavior in ("removed", "contiguous", "merged_with_previous", "merged_with_next"):
        yield f"split {behavior}", bpe(P.Split(Regex(r"\w+|[^\w\s]+"), behavior, invert=True), **unk)
    yield "split at nothing", bpe(P.Split(Regex(r"(?=(\d{3})+(?!\d))"), "isolated"), **unk)
    yield "punctuation", bpe(P.Sequence([P.Punctuation("contiguous"), P.CharDelimiterSplit(" ")]), **unk)
    yield "fixed length", bpe(P.FixedLength(4), N.NFD(), **unk)
    yield "normalizers", bpe(P.Whitespace(), N.Sequence([N.NFKD(), N.StripAccents(), N.Lowercase(), N.Strip()]), **unk)
    yield "ctc", bpe(P.Whitespace(), dec=D.CTC("<s>", "e"), **unk)
    yield "word piece", word_piece()
    yield "word level", word_level()
    yield "unigram", unigram(False)
    yield "unigram with bytes", unigram(True)
    yield "added tokens", added()
    yield "added tokens that touch", touching()
    for form in (N.NFC(), N.NFD(), N.NFKC(), N.NFKD(), N.StripAccents(), N.Lowercase(), N.BertNormalizer()):
        yield f"ages {type(form).__name__}", old_unicode(form)
    for cut in (P.Punctuation(), P.Digits(True), P.BertPreTokenizer()):
        yield f"ages {type(cut).__name__}", old_unicode(None, cut)
    for pattern in (r"\w", r"[\w]", r"[^\w\s]", r"[^\S\n]", r"[\W\d]", r"\h", r"\p{Han}", r"[\p{L}&&[^\p{Han}a-f]]+", r"[[ab]c]", r"[^[ab]\s]+",
                    r"[[:punct:]]", r"\p{L}", r"\p{^L}", r"\p{So}", r"(?m:a.b)", r"\v", r"b{,1}", r"[\s-]", r"\u0061", r"\bb"):
        yield f"removing {pattern}", removing(pattern)
    yield "unknown left out", bpe(P.Whitespace())
    yield "some bytes missing", bpe(P.Whitespace(), special=SPECIAL + BYTES[:65], fuse_unk=True, byte_fallback=True, size=240, **unk)
    for norm in (N.Strip(), N.Replace("a", ""), N.Replace("th", "t"), N.StripAccents(), N.Nmt()):
        yield f"first of {type(norm).__name__}", bpe(P.Metaspace(prepend_scheme="first"), norm, fuse_unk=True, **unk)


def main():
    out = []
    for name, tokenizer in cases():
        vectors = []
        for text in AGES + TEXTS[4:8] if name.startswith(("ages", "removing")) else TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            special = tokenizer.encode(text).ids
            vectors.append([text, ids, special, tokenizer.decode(special, skip_special_tokens=False) if special else "",
                            tokenizer.decode(special) if special else ""])
        out.append({"name": name, "tokenizer": json.loads(tokenizer.to_str()), "vectors": vectors})
    with open(sys.argv[1], "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in out) + "\n]\n")


if __name__ == "__main__":
    main()
