#!/usr/bin/env python3
"""Prompts and decoding side by side with llama.cpp (llama-cpp-python), in one run: anemone on bundles of several forms,
llama.cpp on the form of the same GGUF file that is as large, made beside it at the first run; turn by turn, in
processes that are warm, on the same number of threads. Prints tokens per second and the median of the rounds' ratios.

    generate_peers.py MODEL.gguf FORM=BUNDLE … [--threads 2] [--new 32] [--rounds 7] [--prompts 64,512]
                      [--arith fast] [--bench build/release/bench_speed] [--folder build] [--markdown]

    FORM       against      made by
    int8       Q8_0         convert --precision int8 --tokens 1,64
    fp16       F16          convert --precision fp16 --tokens 1,64
    lut4-g16   Q4_0         convert --palettize 4 --group 16 --tokens 1,64
    int4-b32   Q4_0         convert --quantize int4 --block 32 --tokens 1,64

Other work on the machine slows both: the ratio counts, not the speeds.
"""
import argparse
import os
import statistics
import subprocess
import time

PEERS = {"int8": "Q8_0", "fp16": "F16", "lut4-g16": "Q4_0", "int4-b32": "Q4_0"}


def quantized(model, kind, folder):
    """A GGUF file in another type, made once. All matrices get it, the embedding too: our head is in it as well."""
    import ctypes
    import llama_cpp

    out = os.path.join(folder, os.path.basename(model).rsplit(".", 2)[0] + f".{kind}.gguf")
    if os.path.exists(out):
        return out
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind}")
    params.allow_requantize = True
    params.pure = True
    part = out + ".part"
    if llama_cpp.llama_model_quantize(model.encode(), part.encode(), ctypes.byref(params)) != 0:
        raise SystemExit(f"error: llama.cpp could not make {kind} of {model}")
    os.rename(part, out)
    return out


class Llama:
    def __init__(self, path, context, threads):
        import llama_cpp

        self.model = llama_cpp.Llama(path, n_ctx=context, n_batch=min(context, 512), n_threads=threads,
                                     n_threads_batch=threads, verbose=False)

    def prefill(self, count):
        ids = [100 + 37 * i % 1000 for i in range(count)]
        self.model.reset()
        start = time.perf_counter()
        self.model.eval(ids)
        return count / (time.perf_counter() - start)

    def decode(self, count):
        token = 100
        start = time.perf_counter()
        for _ in range(count):
            self.model.eval([token])
            token = int(self.best())
        return count / (time.perf_counter() - start)

    def best(self):
        import numpy

        logits = self.model._ctx.get_logits_ith(-1)
        return numpy.ctypeslib.as_array(logits, shape=(self.model.n_vocab(),)).argmax()


class Anemone:
    def __init__(self, bench, bundle, threads, arith):
        self.process = subprocess.Popen([bench, bundle, str(threads), arith], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, what, count):
        self.process.stdin.write(f"{what} {count}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("error: bench_speed ended")
        return float(line)

    def prefill(self, count):
        return self.ask("prefill", count)

    def decode(self, count):
        return self.ask("decode", count)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("bundles", nargs="+", metavar="FORM=BUNDLE")
    parser.add_argument("--bench", default="build/release/bench_speed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--new", type=int, default=32, help="tokens decoded in a round")
    parser.add_argument("--prompts", default="64,512", help="lengths of prompts")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--arith", default="fast")
    parser.add_argument("--folder", default="build", help="where llama.cpp's files are kept")
    parser.add_argument("--markdown", action="store_true", help="a table for the guide")
    options = parser.parse_args()
    prompts = [int(n) for n in options.prompts.split(",") if n]

    if options.markdown:
        print("| form | against | what | anemone, tok/s | llama.cpp, tok/s | ratio |\n|---|---|---|---|---|---|")
    for item in options.bundles:
        form, bundle = item.split("=", 1)
        kind = PEERS[form]
        peer = Llama(quantized(options.model, kind, options.folder), 2048, options.threads)
        ours = Anemone(options.bench, bundle, options.threads, options.arith)
        cases = [("prefill", n) for n in prompts] + [("decode", options.new)]
        results = {case: [] for case in cases}
        for n in range(options.rounds + 1):
            for what, count in cases:
                pair = getattr(ours, what)(count), getattr(peer, what)(count)
                if n:  # the first round makes plans and touches pages
                    results[what, count].append(pair)
        for (what, count), pairs in results.items():
            a, b = (statistics.median(p[i] for p in pairs) for i in (0, 1))
            ratio = statistics.median(x / y for x, y in pairs)
            name = f"prefill of {count}" if what == "prefill" else "decode"
            print(f"| {form} | {kind} | {name} | {a:.1f} | {b:.1f} | {ratio:.2f} |" if options.markdown else
                  f"{form:9} {kind:5} {name:16} {a:8.1f} {b:8.1f} tok/s  ratio {ratio:.2f}", flush=True)
        ours.end()
        del peer


if __name__ == "__main__":
    main()
