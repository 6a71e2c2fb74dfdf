#!/usr/bin/env python3
"""Decoding side by side with llama.cpp (llama-cpp-python), in one run: anemone on a bundle, llama.cpp on the Q8_0
form of the same GGUF file (made beside it at the first run), turn by turn, on the same number of threads. Prints
tokens per second of prefill and decode of every round and the median of the rounds' ratios. anemone's prefill there
is the first call of a fresh process, which makes its plans; beside it, where bench_prefill is built, prompts of
several lengths in processes that are warm.

    generate_peers.py BUNDLE MODEL.gguf [--anemone build/release/anemone] [--threads 2] [--new 128] [--context 2048]
                      [--prompt TEXT] [--rounds 5]

Other work on the machine slows both: the ratio counts, not the speeds. The load average is printed beside them.
"""
import argparse
import json
import os
import statistics
import subprocess
import time

PROMPT = "Explain how tides work and why there are two of them each day."


def quantized(model, folder):
    """The Q8_0 form of a GGUF file, made once."""
    import ctypes
    import llama_cpp

    out = os.path.join(folder, os.path.basename(model).rsplit(".", 2)[0] + ".Q8_0.gguf")
    if os.path.exists(out):
        return out
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0
    params.allow_requantize = True
    part = out + ".part"
    if llama_cpp.llama_model_quantize(model.encode(), part.encode(), ctypes.byref(params)) != 0:
        raise SystemExit(f"error: llama.cpp could not quantize {model}")
    os.rename(part, out)
    return out


class Llama:
    def __init__(self, path, context, threads):
        import llama_cpp

        self.model = llama_cpp.Llama(path, n_ctx=context, n_threads=threads, n_threads_batch=threads, verbose=False)

    def run(self, ids, new):
        self.model.reset()
        start = time.perf_counter()
        self.model.eval(ids)
        first = int(self.best())
        prefill = time.perf_counter() - start
        start = time.perf_counter()
        token = first
        for _ in range(new):
            self.model.eval([token])
            token = int(self.best())
        return len(ids) / prefill, new / max(1e-9, time.perf_counter() - start)

    def prefill(self, count):
        """Tokens per second of a prompt, the best of four."""
        ids = [100 + 37 * i % 1000 for i in range(count)]
        best = 0
        for _ in range(4):
            self.model.reset()
            start = time.perf_counter()
            self.model.eval(ids)
            best = max(best, count / (time.perf_counter() - start))
        return best

    def best(self):
        import numpy

        logits = self.model._ctx.get_logits_ith(-1)
        return numpy.ctypeslib.as_array(logits, shape=(self.model.n_vocab(),)).argmax()


def anemone(command, bundle, prompt, new, threads):
    out = subprocess.run(
        [command, "run", bundle, prompt, "--max-new", str(new), "--threads", str(threads), "--json", "--quiet"],
        check=True, capture_output=True, text=True,
    ).stdout
    return json.loads(out)


def warm_prefill(command, bundle, count, threads):
    run = subprocess.run([command, bundle, str(count), str(threads), "1"], check=True, capture_output=True, text=True)
    out = run.stdout
    return next(float(line.split()[-2]) for line in out.splitlines() if line.startswith("last logits"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("model")
    parser.add_argument("--anemone", default="build/release/anemone")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--new", type=int, default=128)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", default="build", help="where the Q8_0 file is kept")
    options = parser.parse_args()

    llama = Llama(quantized(options.model, options.folder), options.context, options.threads)
    length = anemone(options.anemone, options.bundle, options.prompt, 1, options.threads)["prompt_tokens"]
    ids = [llama.model.token_bos()] + llama.model.tokenize(options.prompt.encode() * 64, add_bos=False)
    ids = ids[:length]
    llama.run(ids, 8)
    print(f"{options.threads} threads, {length} prompt tokens, {options.new} new, context {options.context}")
    print(f"{'round':>5} | {'anemone':>17} | {'llama.cpp Q8_0':>17} | {'ratio':>15} | load")
    print(f"{'':>5} | {'prefill':>8} {'decode':>8} | {'prefill':>8} {'decode':>8} | {'prefill':>7} {'decode':>7} |")
    ratios = []
    for n in range(options.rounds):
        ours = anemone(options.anemone, options.bundle, options.prompt, options.new, options.threads)
        a = ours["prefill_tokens_per_s"], ours["decode_tokens_per_s"]
        b = llama.run(ids, options.new)
        ratios.append((a[0] / b[0], a[1] / b[1]))
        print(f"{n + 1:5} | {a[0]:8.1f} {a[1]:8.1f} | {b[0]:8.1f} {b[1]:8.1f} | "
              f"{ratios[-1][0]:7.2f} {ratios[-1][1]:7.2f} | {os.getloadavg()[0]:.1f}", flush=True)
    program = os.path.join(os.path.dirname(options.anemone), "bench_prefill")
    for count in (length, 64, 512, 1024) if os.path.exists(program) else ():
        pairs = [(warm_prefill(program, options.bundle, count, options.threads), llama.prefill(count))
                 for _ in range(3)]
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"warm, {count:4} tokens: prefill {max(a for a, _ in pairs):.0f} and {max(b for _, b in pairs):.0f} tok/s, "
              f"ratio {ratio:.2f}", flush=True)
    print(f"median of the ratios: prefill {statistics.median(r[0] for r in ratios):.2f}, "
          f"decode {statistics.median(r[1] for r in ratios):.2f}")


if __name__ == "__main__":
    main()
