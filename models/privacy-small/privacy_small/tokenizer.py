"""Trains the tokenizer: python -m privacy_small.tokenizer INPUTS OUTPUT_FOLDER

Byte-level BPE inside pieces that cannot cross the edge of a span: runs of cased letters (with one space before them),
single digits, single signs, and single letters of scripts without case (Han, kana, Hangul, Arabic). Token 0 is padding.
"""

import json
import sys
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .generator.generator import Generator
from .generator.material import SENTENCE_FILE, read_json_gz

PIECES = r" ?[\p{Lu}\p{Ll}\p{Lt}\p{Lm}\p{M}]+|\p{N}|\p{Lo}\p{M}*|\s+(?!\S)|\s|[^\s\p{L}\p{N}\p{M}]"
VOCABULARY = 4096
SEED = 99
DOCUMENTS = 120_000
PAD = "<pad>"


def training_texts(inputs: Path):
    generator = Generator(inputs, "train", SEED)
    for _ in range(DOCUMENTS):
        yield generator.document().text
    sentences = read_json_gz(inputs / SENTENCE_FILE)
    yield from sentences.pop("code")
    for language, texts in sorted(sentences.items()):
        yield from texts["plain"][: 12000 if language == "en" else 2500]


def train(inputs: Path) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(PIECES), "isolated")
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_only])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        min_frequency=2,
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_texts(inputs), trainer)
    return tokenizer


def main(inputs: str, output: str) -> None:
    tokenizer = train(Path(inputs))
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": PAD,
        "model_max_length": 131072,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")
    print(
        tokenizer.get_vocab_size(),
        tokenizer.encode("Ask Erik Rosén (erik.rosen@example.net), 我叫王伟, +49 30 1234").tokens,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
