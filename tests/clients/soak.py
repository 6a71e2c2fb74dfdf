"""Strangers at the door of `anemone serve`: random requests, hang-ups, slow readers, malformed HTTP and JSON, idle
connections, far more of them than the server takes. The answers that matter stay right, and the memory stays where it
was. Traffic goes to 127.0.0.1 alone.
    soak.py path/to/anemone [--seconds 30] [--bundle BUNDLE] [--convert path/to/another/anemone] [--grow MIB]
A server with sanitizers: --convert names a quick build, which makes the bundle and the expected texts; --grow 700 leaves
room for what an address sanitizer keeps of freed memory.
"""
import argparse
import json
import random
import resource
import socket
import subprocess
import tempfile
import threading
import time

from server import Server, demo_bundle

arguments = argparse.ArgumentParser()
arguments.add_argument("command")
arguments.add_argument("--seconds", type=float, default=30)
arguments.add_argument("--bundle")
arguments.add_argument("--idle", type=int, default=400, help="connections that say nothing")
arguments.add_argument("--flood", type=int, default=2000, help="connections that come at once, beyond the limit")
arguments.add_argument("--convert", help="the program that makes the bundle and the texts to compare with")
arguments.add_argument("--grow", type=int, default=48, help="MiB that the memory may grow by after the warm-up")
args = arguments.parse_args()

PROMPTS = ["One morning Mara went to", "Once upon a time", "The crab said", "In the water there was"]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}, "b": {"type": "string", "maxLength": 5}}, "required": ["a", "b"]}
problems, counts, lock = [], {}, threading.Lock()
SLOW_SECONDS = 5  # a request that takes longer is looked into while it waits


class Watch(threading.Thread):
    """Says what the server was doing when a request was slow, and when this machine stood still (a paused process, a
    laptop that slept): then a client's timeout says nothing about the server."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.under_way, self.pauses, self.slowest, self.beat = server, {}, [], (0.0, ""), time.monotonic()

    def run(self):
        while True:
            time.sleep(0.2)
            with lock:
                now = self.look()
                late = [(w, k, b) for w, (k, b, told) in self.under_way.items() if now - b > SLOW_SECONDS and not told]
                for w, k, b in late:
                    self.under_way[w] = (k, b, True)
            if late:
                self.tell(now, late)

    def look(self):
        """Notes a pause that has just ended; whoever wakes up first does."""
        now = time.monotonic()
        if now - self.beat > 2:
            self.pauses.append((self.beat, now))
        self.beat = now
        return now

    def seconds(self):
        """Time so far, without pauses."""
        with lock:
            return self.look() - sum(b - a for a, b in self.pauses)

    def tell(self, now, late):
        try:
            slots = [{k: s[k] for k in ("id", "is_processing", "id_task", "n_prompt_tokens", "n_past") if k in s} for s in self.server.get("/slots", timeout=5)]
            figures = [line for line in self.server.get("/metrics", timeout=5).splitlines() if line.startswith("llamacpp:requests_")]
        except OSError as e:
            slots, figures = repr(e), []
        print(f"slow: {[(k, round(now - b, 1)) for _, k, b in late]}; slots {slots}; {figures}; pauses {len(self.pauses)}", flush=True)

    def begin(self, worker, kind):
        with lock:
            self.under_way[worker] = (kind, time.monotonic(), False)

    def end(self, worker):
        """Whether the machine stood still meanwhile."""
        with lock:
            now = self.look()
            kind, begin, _ = self.under_way.pop(worker)
            paused = any(stop > begin for _, stop in self.pauses)
            if not paused:
                self.slowest = max(self.slowest, (now - begin, kind))
            return paused


def note(kind, problem=None):
    with lock:
        counts[kind] = counts.get(kind, 0) + 1
        if problem:
            problems.append(f"{kind}: {problem}")


def right_answer(server, rng, alone):
    i = rng.randrange(len(PROMPTS))
    status, body = server.post("/v1/completions", {"prompt": PROMPTS[i], "max_tokens": 12, "temperature": 0})
    fine = status == 503 or (status == 200 and body["choices"][0]["text"] == alone[i])
    note("answers", None if fine else f"{status} {body}")


def right_json(server, rng, _):
    status, body = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 80, "seed": rng.randrange(99),
                                                        "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}})
    if status == 503:
        return note("busy")
    value = json.loads(body["choices"][0]["message"]["content"])
    note("json", None if status == 200 and 0 <= value["a"] <= 9 and len(value["b"]) <= 5 else f"{status} {body}")


def hang_up(server, rng, _):
    body = json.dumps({"prompt": rng.choice(PROMPTS), "max_tokens": 300, "ignore_eos": True, "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", server.port), 20) as s:
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        if rng.random() < 0.7:
            s.recv(rng.randrange(1, 400))
    note("hang-ups")


def slow_reader(server, rng, _):
    body = json.dumps({"prompt": rng.choice(PROMPTS), "max_tokens": 20, "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", server.port), 60) as s:
        for byte in b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body:
            s.send(bytes([byte]))
        text = b""
        while part := s.recv(64):
            text += part
            time.sleep(0.002)
    note("slow readers", None if b"[DONE]" in text or b"503" in text else text[-200:])


def garbage(server, rng, _):
    start = rng.choice([b"", b"GET /health HTTP/1.1\r\n", b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfff"])
    with socket.create_connection(("127.0.0.1", server.port), 20) as s:
        s.sendall(start + rng.randbytes(rng.randrange(1, 3000)))
        s.settimeout(0.05)
        try:
            s.recv(1000)
        except (TimeoutError, ConnectionResetError):
            pass
    note("garbage")


def bad_json(server, rng, _):
    body = rng.choice([b"{", b"[]", b"\"x\"", b"{\"prompt\": 5}", b"{\"prompt\": \"\\ud800\"}", b"[" * 5000, b"{\"prompt\":\"x\",\"temperature\":1e999}",
                       b"{\"messages\":[{\"role\":\"user\",\"content\":{}}]}", b"{\"prompt\":\"x\",\"grammar\":\"root ::= root\"}", b"\xff\xfe"])
    status, answer = server.post(rng.choice(["/v1/completions", "/v1/chat/completions", "/tokenize", "/v1/embeddings", "/v1/responses"]), body)
    note("bad JSON", None if status in (200, 400, 503) and (status == 200 or "error" in answer) else f"{status} {answer}")


def small_request(server, rng, _):
    path, body = rng.choice([
        ("/tokenize", {"content": "One morning", "with_pieces": True}), ("/apply-template", {"messages": [{"role": "user", "content": "x"}]}),
        ("/v1/responses", {"input": "The crab", "max_output_tokens": 4}), ("/v1/redact", {"input": "Mail ann.lee@example.com now"}),
        ("/v1/completions", {"prompt": ["The crab", "A fish"], "max_tokens": 3, "n": 2, "logprobs": 2}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Go"}], "max_tokens": 60, "tool_choice": "required",
                                  "tools": [{"type": "function", "function": {"name": "go", "parameters": {"type": "object", "properties": {
                                      "n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"]}}}]})])
    status, answer = server.post(path, body)
    fine = status in (200, 503) and (status == 503 or "error" not in answer or answer["error"] is None)
    if status == 200 and path == "/v1/redact":
        fine = answer["data"][0]["text"] == "Mail [EMAIL] now"
    if rng.random() < 0.3:
        server.get(rng.choice(["/props", "/slots", "/metrics", "/v1/models", "/bundle", "/"]))
    note("small requests", None if fine else f"{path} {status} {answer}")


def flood(server, count):
    """More connections than the server takes, all at once: some are closed at once, and a new client is answered soon."""
    many, closed = [], 0
    for _ in range(count):
        s = socket.socket()
        s.settimeout(5)
        try:
            s.connect(("127.0.0.1", server.port))
            many.append(s)
        except OSError:
            closed += 1
    time.sleep(0.6)
    start, status = time.time(), 0
    while status != 200 and time.time() - start < 10:
        try:
            server.get("/health", timeout=5)
            status = 200
        except OSError:
            time.sleep(0.05)
    seconds = time.time() - start
    for s in many:
        s.setblocking(False)
        try:
            closed += s.recv(300) is not None
        except BlockingIOError:
            pass
        except OSError:
            closed += 1
        s.close()
    beyond = count - (args.idle + 100)
    problem = f"a new client waited {seconds:.1f} s" if seconds > 1 else f"only {closed} of {count} were closed" if closed < beyond else None
    note("floods", problem)
    return closed


def worker(server, watch, seed, alone, end):
    rng = random.Random(seed)
    kinds = [right_answer, right_answer, right_json, hang_up, hang_up, slow_reader, garbage, garbage, bad_json, bad_json, small_request,
             small_request]
    while watch.seconds() < end and len(problems) < 5:
        kind, problem = rng.choice(kinds), None
        watch.begin(seed, kind.__name__)
        try:
            kind(server, rng, alone)
        except (ConnectionResetError, BrokenPipeError):
            note("resets")
        except Exception as e:
            problem = e
        paused = watch.end(seed)
        if isinstance(problem, TimeoutError) and paused:
            note("timeouts while the machine stood still")
        elif problem:
            note("failures", f"{kind.__name__}: {problem!r}")


def main():
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    maker = args.convert or args.command
    with tempfile.TemporaryDirectory() as folder:
        bundle = args.bundle or demo_bundle(maker, folder, "--context", "512", "--tokens", "1,32")
        alone = [json.loads(subprocess.run([maker, "run", bundle, p, "--raw", "--max-new", "12", "--json"], check=True, capture_output=True,
                                           text=True, stdin=subprocess.DEVNULL).stdout)["text"] for p in PROMPTS]
        with Server(args.command, [bundle], "--parallel", "4", "--cache-memory", "64", "--cache-dir", folder + "/cache", "--cache-disk", "64", "--max-connections", str(args.idle + 100)) as server:
            watch = Watch(server)
            watch.start()
            idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(args.idle)]
            def rounds(seconds, seed):
                end = watch.seconds() + seconds
                threads = [threading.Thread(target=worker, args=(server, watch, seed + i, alone, end)) for i in range(8)]
                [t.start() for t in threads]
                [t.join() for t in threads]
                if server.process.poll() is not None:
                    raise SystemExit("\n".join([*problems[:5], f"the server ended with {server.process.returncode}: {server.errors()[-4000:]}"]))
            rounds(max(5, args.seconds / 4), 1)
            warm = server.rss()
            rounds(args.seconds * 3 / 4, 100)
            closed = flood(server, args.flood)
            grown = server.rss() - warm
            deadline = time.time() + 5
            while any(s["is_processing"] for s in server.get("/slots")) and time.time() < deadline:
                time.sleep(0.1)
            if any(s["is_processing"] for s in server.get("/slots")):
                problems.append("a slot is still busy")
            if grown > args.grow << 20:
                problems.append(f"memory grew by {grown >> 20} MiB after the warm-up")
            for s in idle:
                s.close()
        if server.process.returncode != 0:  # also what a leak sanitizer says
            problems.append(f"the server ended with {server.process.returncode}: {server.errors()[-2000:]}")
        print(", ".join(f"{n} {k}" for k, n in sorted(counts.items())) + f"; {closed} of {args.flood} connections closed; memory {warm >> 20} MiB, {grown >> 20:+d} MiB since the warm-up; the slowest request took {watch.slowest[0]:.1f} s ({watch.slowest[1]}); "
              f"the machine stood still {len(watch.pauses)} times, {sum(b - a for a, b in watch.pauses):.0f} s")
    if problems:
        raise SystemExit("\n".join(problems[:5]))


main()
