#!/usr/bin/env python3
"""Prompts and decoding side by side with llama.cpp (llama-cpp-python), in one run: anemone on bundles of several forms,
llama.cpp on the form of the same GGUF file that is as large, made beside it at the first run; turn by turn, in
processes that are warm, on the same number of threads. Prints tokens per second and the median of the rounds' ratios.

    generate_peers.py MODEL.gguf FORM=BUNDLE … [--threads 2] [--new 32] [--rounds 7] [--prompts 64,512] [--first 44]
                      [--arith fast] [--bench build/release/bench_speed] [--folder build] [--markdown]

    FORM       against      made by
    int8       Q8_0         convert --precision int8 --tokens 1,64
    fp16       F16          convert --precision fp16 --tokens 1,64
    lut4-g16   Q4_0         convert --palettize 4 --group 16 --tokens 1,64
    int4-b32   Q4_0         convert --quantize int4 --block 32 --tokens 1,64

A model of a shape alone will do: make_gguf.py qwen2.5-0.5b Q8_0 qwen2.5-0.5b.Q8_0.gguf.

"first" is the first prompt of a process: a new process of ours each round, its bundle open, against llama.cpp with its
model loaded and warm. "reading" is what decoding takes of the rate at which the same threads read memory, in the same
round. Other work on the machine slows both programs: the ratio counts, not the speeds.
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

    out = os.path.join(folder, os.path.basename(model).rsplit(".", 2)[0] + f".{kind}.peer.gguf")
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

    def ask(self, what, count=0):
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


def rested(turn):
    """A turn when the threads of the other program are asleep: those of OpenMP spin up to 0.2 s after their work."""
    time.sleep(0.3)
    return turn()


class Form:
    """The rounds of one form."""

    def __init__(self, form, bundle, options):
        self.form, self.bundle, self.options = form, bundle, options
        self.kind = PEERS[form]
        self.peer = Llama(quantized(options.model, self.kind, options.folder), 2048, options.threads)
        self.ours = self.fresh()
        self.results, self.reading = {}, []
        self.weights = self.ours.ask("weights")

    def fresh(self):
        return Anemone(self.options.bench, self.bundle, self.options.threads, self.options.arith)

    def first(self, count):
        ours = self.fresh()
        ours.ask("weights")  # it is open
        speed = ours.prefill(count)
        ours.end()
        return speed

    def run(self):
        o = self.options
        cases = [("prefill", int(n)) for n in o.prompts.split(",") if n]
        cases += [("first", o.first)] if o.first else []
        cases += [("decode", o.new)] if o.new else []
        for n in range(o.rounds + 1):
            for what, count in cases:
                turns = [lambda: self.first(count) if what == "first" else getattr(self.ours, what)(count),
                         lambda: getattr(self.peer, "prefill" if what == "first" else what)(count)]
                pair = [rested(turn) for turn in turns]
                if n:  # the first round makes plans and touches pages
                    self.results.setdefault((what, count), []).append(pair)
                    if what == "decode":
                        self.reading.append(pair[0] * self.weights / self.ours.ask("read"))
        self.ours.end()
        return self

    def show(self):
        for (what, count), pairs in self.results.items():
            a, b = (statistics.median(p[i] for p in pairs) for i in (0, 1))
            ratio = statistics.median(x / y for x, y in pairs)
            name = {"prefill": f"prefill of {count}", "first": f"first, {count} tokens", "decode": "decode"}[what]
            print(f"| {self.form} | {self.kind} | {name} | {a:.1f} | {b:.1f} | {ratio:.2f} |"
                  if self.options.markdown else
                  f"{self.form:9} {self.kind:5} {name:16} {a:8.1f} {b:8.1f} tok/s  ratio {ratio:.2f}", flush=True)
        if self.reading:
            share = 100 * statistics.median(self.reading)
            print(f"| {self.form} | reading | decode | {share:.0f}% | | |" if self.options.markdown else
                  f"{self.form:9} decode takes {share:.0f}% of reading ({self.weights:.3f} GB a token)", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("bundles", nargs="+", metavar="FORM=BUNDLE")
    parser.add_argument("--bench", default="build/release/bench_speed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--new", type=int, default=32, help="tokens decoded in a round; 0: none")
    parser.add_argument("--prompts", default="64,512", help="lengths of prompts")
    parser.add_argument("--first", type=int, default=0, help="length of the first prompt of a process; 0: none")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--arith", default="fast")
    parser.add_argument("--folder", default="build", help="where llama.cpp's files are kept")
    parser.add_argument("--markdown", action="store_true", help="a table for the guide")
    options = parser.parse_args()

    if options.markdown:
        print("| form | against | what | anemone, tok/s | llama.cpp, tok/s | ratio |\n|---|---|---|---|---|---|")
    for item in options.bundles:
        form, bundle = item.split("=", 1)
        Form(form, bundle, options).run().show()


if __name__ == "__main__":
    main()
