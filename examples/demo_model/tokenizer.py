"""Trains the tokenizer: byte-level BPE with GPT-2's splitting rule, 2,048 entries, on text from corpus.py.

    python3 tokenizer.py -o tokenizer.json

Ids 0 and 1 are <|bos|> and <|eos|>; then come the 256 bytes and the merges in the order they were learned.
"""
import argparse

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

import corpus

BOS, EOS = "<|bos|>", "<|eos|>"


def train(count, seed, vocab_size, processes):
    result = tokenizers.Tokenizer(models.BPE())
    result.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    result.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=[BOS, EOS], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    texts = (text for pieces in corpus.blocks(count, seed, processes) for text in pieces)
    result.train_from_iterator(texts, trainer)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=40000, help="pieces of text to learn from")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--vocab-size", type=int, default=2048)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("-o", "--output", default="tokenizer.json")
    args = parser.parse_args()
    tokenizer = train(args.count, args.seed, args.vocab_size, args.processes)
    tokenizer.save(args.output)
    sample = corpus.block((args.seed + 1, 0, 200))
    characters = sum(map(len, sample))
    ids = sum(len(encoding.ids) for encoding in tokenizer.encode_batch(sample))
    print(f"{args.output}: {tokenizer.get_vocab_size()} entries, {characters / ids:.2f} characters a token")


if __name__ == "__main__":
    main()
