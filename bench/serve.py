#!/usr/bin/env python3
"""`anemone serve` beside llama.cpp's llama-server, in one run, by hand:
    bench/serve.py ANEMONE BUNDLE [--llama LLAMA_SERVER MODEL.gguf] [--streams 1,4,8] [--tokens 96] [--rounds 3]
Total tokens in a second at 1, 4 and 8 streams, the time to the first token of a 500-token prompt that is new and one that
is known; with --memory, the memory of idle slots. Both servers are up; they are asked in turns, with the same threads.
llama-server is built from the sources inside of the sdist of llama-cpp-python (vendor/llama.cpp):
    cmake -B build -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF; cmake --build build -t llama-server
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import signal
import socket
import statistics
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


def total_speed(server, streams, tokens, seed):
    """Tokens in a second of so many streams at once, together."""
    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(streams) as pool:
        done = list(pool.map(lambda i: ask(server.url, prompt_of(24, seed * 100 + i), tokens), range(streams)))
    return sum(d[2] for d in done) / (time.perf_counter() - start)


def first_token(server, seed):
    """Milliseconds to the first token of a prompt of about 500 tokens: new, and known up to its last words."""
    new = ask(server.url, prompt_of(440, seed), 2)[0]
    known = ask(server.url, prompt_of(440, seed) + " Then", 2)[0]
    return 1e3 * new, 1e3 * known


def idle_memory(make):
    """MB of a slot that nobody uses: a server with 8 of them against one with 1."""
    sizes = []
    for slots in (1, 8):
        server = make(slots)
        ask(server.url, "Hello", 2)
        sizes.append(server.rss())
        server.stop()
    return (sizes[1] - sizes[0]) / 7 / 1e6


def row(label, values, unit, better):
    """One line: each server's median, and the median of the rounds' ratios."""
    cells = [f"{statistics.median(v):.{0 if statistics.median(v) >= 100 else 1}f} {unit}" for v in values.values()]
    if len(values) == 2:
        ours, theirs = values.values()
        cells.append(f"{statistics.median(b / a if better == 'less' else a / b for a, b in zip(ours, theirs)):.2f}x")
    print("| " + " | ".join([label, *cells]) + " |", flush=True)


def measure(servers, args):
    print("| | " + " | ".join(servers) + (" | ratio |" if len(servers) == 2 else " |"))
    print("|---" * (len(servers) + 1) + ("|---|" if len(servers) == 2 else "|"), flush=True)
    for server in servers.values():
        ask(server.url, prompt_of(20, 999), 8)
    alone = {}
    for n in args.streams:
        speeds = {name: [] for name in servers}
        for turn in range(args.rounds):
            for name, server in servers.items():
                speeds[name].append(total_speed(server, n, args.tokens, 10 * n + turn))
        row(f"{n} stream{'s' if n > 1 else ''}", speeds, "tok/s", "more")
        alone = alone or speeds
    grown = {name: [b / a for a, b in zip(alone[name], speeds[name])] for name in servers}
    row(f"{args.streams[-1]} streams against {args.streams[0]}", grown, "x", "more")
    new, known = ({name: [] for name in servers} for _ in range(2))
    for turn in range(args.rounds):
        for name, server in servers.items():
            a, b = first_token(server, 5000 + turn)
            new[name].append(a)
            known[name].append(b)
    row("first token, 500 new tokens", new, "ms", "less")
    row("first token, 500 known tokens", known, "ms", "less")
    row("known against new", {n: [100 * b / a for a, b in zip(new[n], known[n])] for n in servers}, "%", "less")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("anemone")
    p.add_argument("bundle")
    p.add_argument("--llama", nargs=2, metavar=("SERVER", "GGUF"))
    p.add_argument("--streams", default="1,4,8", type=lambda text: [int(n) for n in text.split(",")])
    p.add_argument("--tokens", type=int, default=96)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--context", type=int, default=2048, help="of each of llama-server's slots")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--flag", action="append", default=[], help="one more for anemone serve, such as --arith=fast")
    p.add_argument("--memory", action="store_true", help="only the memory of idle slots")
    args = p.parse_args()
    makers = {"anemone": lambda n: Server(args.anemone, [args.bundle], "--parallel", str(n), "--threads", str(args.threads), *args.flag)}
    if args.llama:
        makers["llama.cpp"] = lambda n: Llama(*args.llama, n, args.context, args.threads)
    if args.memory:
        return [print(f"{name}: {idle_memory(make):.1f} MB for an idle slot", flush=True) for name, make in makers.items()]
    servers = {name: make(max(args.streams)) for name, make in makers.items()}
    try:
        measure(servers, args)
    finally:
        [server.stop() for server in servers.values()]


main()
