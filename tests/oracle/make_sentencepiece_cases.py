#!/usr/bin/env python3
"""Write tests/data/sentencepiece_*.model, small models, and sentencepiece_cases.json: the ids that SentencePiece 0.2.2
gives some texts with them.

    make_sentencepiece_cases.py tests/data
"""
import io
import json
import os
import sys

import sentencepiece

CORPUS = ["The small boat left the harbour before sunrise. Nobody saw it, and nobody asked where it went.",
          "She can't, they're late, we'll see; it's 12345 or 3.14159 — déjà vu, naïve façade.",
          "for x in range(10): print(x + 1); return total", "Быстрая лиса 人工智能 機械 안녕"] * 4
TEXTS = ["", " ", "  ", "The boat", "  the  boats left ", "naïve façade", "人工智能 x², 🚀🚀 y", "a\nb", "12345", "foo<sep>the",
         "the<sep> boat <sep>"]
PLAIN = {"normalization_rule_name": "identity"}
MODELS = {
    "bpe": dict(model_type="bpe", byte_fallback=True, remove_extra_whitespaces=False, vocab_size=400, **PLAIN),
    "bpe_user": dict(model_type="bpe", user_defined_symbols=["<sep>"], vocab_size=130, add_dummy_prefix=False, **PLAIN),
    "unigram": dict(model_type="unigram", user_defined_symbols=["<sep>"], vocab_size=130, **PLAIN),
}


def main():
    cases = {}
    for name, options in MODELS.items():
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=model, minloglevel=2,
                                                 character_coverage=0.98, hard_vocab_limit=False, **options)
        with open(os.path.join(sys.argv[1], f"sentencepiece_{name}.model"), "wb") as f:
            f.write(model.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        cases[name] = [[text, processor.encode(text)] for text in TEXTS]
    with open(os.path.join(sys.argv[1], "sentencepiece_cases.json"), "w") as f:
        json.dump(cases, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
