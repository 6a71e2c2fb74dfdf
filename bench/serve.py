#!/usr/bin/env python3
"""`anemone serve` beside llama.cpp's llama-server, in one run, by hand:
    bench/serve.py ANEMONE BUNDLE [--llama LLAMA_SERVER MODEL.gguf] [--streams 1,4,8] [--tokens 96]
Total tokens in a second at 1, 4 and 8 streams, the time to the first token of a 500-token prompt that is new and one that
is known, and the memory of idle slots. Both servers run alone, one behind the other, with the same threads.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/clients"))
from server import Server  # noqa: E402

WORDS = "the small crab walked over wet stones and looked for something to eat before the tide came back again".split()


class Llama:
    def __init__(self, program, model, slots, context, threads):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen([program, "-m", model, "--port", str(self.port), "-np", str(slots), "-c", str(slots * context),
                                         "-t", str(threads), "-tb", str(threads)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url + "/health").read()
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("llama-server did not start")

    rss = Server.rss

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def ask(url, prompt, tokens):
    """Seconds to the first token, seconds in all, tokens."""
    body = json.dumps({"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}).encode()
    request = urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})
    start, first, count = time.perf_counter(), None, 0
    with urllib.request.urlopen(request, timeout=600) as answer:
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            data = json.loads(line[6:])
            if data["choices"] and data["choices"][0].get("text"):
                first = first or time.perf_counter() - start
            count = data.get("timings", {}).get("predicted_n", count)
    return first, time.perf_counter() - start, count


def prompt_of(words, seed):
    return f"Story {seed}: " + " ".join(WORDS[(i * 7 + seed * 3 + i // 5) % len(WORDS)] for i in range(words))


def measure(name, server, streams, tokens):
    ask(server.url, prompt_of(20, 999), 8)
    for n in streams:
        start = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(n) as pool:
            done = list(pool.map(lambda i: ask(server.url, prompt_of(24, n * 10 + i), tokens), range(n)))
        seconds = time.perf_counter() - start
        print(f"{name:10} {n} streams  {sum(d[2] for d in done) / seconds:8.1f} tok/s in all", flush=True)
    cold = [ask(server.url, prompt_of(440, 50 + i), 2)[0] for i in range(2)]
    warm = [ask(server.url, prompt_of(440, 50 + i) + " Then", 2)[0] for i in range(2)]
    print(f"{name:10} first token of ~500 tokens: {1e3 * min(cold):.0f} ms new, {1e3 * min(warm):.0f} ms known "
          f"({100 * min(warm) / min(cold):.0f}%)", flush=True)


def idle_memory(make):
    """Memory of a slot that nobody uses: a server with 8 of them against one with 1."""
    sizes = []
    for slots in (1, 8):
        server = make(slots)
        ask(server.url, "Hello", 2)
        sizes.append(server.rss())
        server.stop()
    return (sizes[1] - sizes[0]) / 7 / 1e6


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("anemone")
    p.add_argument("bundle")
    p.add_argument("--llama", nargs=2, metavar=("SERVER", "GGUF"))
    p.add_argument("--streams", default="1,4,8")
    p.add_argument("--tokens", type=int, default=96)
    p.add_argument("--context", type=int, default=1024, help="of each of llama-server's slots")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--flag", action="append", default=[], help="one more for anemone serve, such as --arith=fast")
    p.add_argument("--memory", action="store_true", help="also the memory of idle slots")
    args = p.parse_args()
    streams = [int(n) for n in args.streams.split(",")]
    makers = [("anemone", lambda n: Server(args.anemone, [args.bundle], "--parallel", str(n), "--threads", str(args.threads), *args.flag))]
    if args.llama:
        makers.append(("llama.cpp", lambda n: Llama(*args.llama, n, args.context, args.threads)))
    for name, make in makers:
        server = make(max(streams))
        try:
            measure(name, server, streams, args.tokens)
        finally:
            server.stop()
        if args.memory:
            print(f"{name:10} an idle slot: {idle_memory(make):.1f} MB", flush=True)


main()
