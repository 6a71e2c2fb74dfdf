#!/usr/bin/env python3
"""Decoding behind a long text, side by side with llama.cpp (llama-cpp-python): at each length both read the same number
of tokens and decode, turn by turn, in processes that are warm, on the same number of threads. Prints tokens per second
and the median of the rounds' ratios. llama.cpp keeps its cache as fp16, too.

    context_peers.py MODEL.gguf FORM=BUNDLE [--lengths 128,1024,4096] [--threads 2] [--new 16] [--rounds 3]
                     [--arith fast] [--bench build/release/bench_speed] [--folder build]

The bundle's context must be longer than the last length. FORM as in generate_peers.py.
"""
import argparse
import statistics

from generate_peers import PEERS, Anemone, Llama, quantized


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("bundle", metavar="FORM=BUNDLE")
    parser.add_argument("--bench", default="build/release/bench_speed")
    parser.add_argument("--lengths", default="128,1024,4096")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--new", type=int, default=16, help="tokens decoded in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--arith", default="fast")
    parser.add_argument("--folder", default="build", help="where llama.cpp's files are kept")
    options = parser.parse_args()
    lengths = [int(n) for n in options.lengths.split(",")]
    form, bundle = options.bundle.split("=", 1)
    kind = PEERS[form]
    context = lengths[-1] + 2 * (options.rounds + 1) * options.new
    peer = Llama(quantized(options.model, kind, options.folder), context, options.threads)
    ours = Anemone(options.bench, bundle, options.threads, options.arith)
    print(f"| filled | anemone {form}, tok/s | llama.cpp {kind}, tok/s | ratio |\n|---|---|---|---|")
    for length in lengths:
        for side in (ours, peer):
            side.prefill(length)
            side.decode(2)
        pairs = [(ours.decode(options.new), peer.decode(options.new)) for _ in range(options.rounds)]
        a, b = (statistics.median(p[i] for p in pairs) for i in (0, 1))
        print(f"| {length} | {a:.1f} | {b:.1f} | {statistics.median(x / y for x, y in pairs):.2f} |", flush=True)
    ours.end()


if __name__ == "__main__":
    main()
