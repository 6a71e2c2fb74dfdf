"""The limits of `anemone serve`, each with its clear answer: queue, size, context, tokens, time, connections, slow readers,
hang-ups; which names it answers to; how it stops; and what is logged.
    limits.py path/to/anemone
"""
import json
import socket
import sys
import tempfile
import time

from server import Server, demo_bundle

COMMAND = sys.argv[1]
LONG = {"prompt": "The crab", "max_tokens": 490, "ignore_eos": True, "temperature": 0}


def wait_for(what, seconds=20):
    end = time.time() + seconds
    while not what():
        assert time.time() < end, "it does not come"
        time.sleep(0.01)


def metric(server, name):
    return next(float(line.split()[1]) for line in server.get("/metrics").splitlines() if line.startswith(f"llamacpp:{name} "))


def send(server, path, body, host="127.0.0.1", buffer=None):
    """A request under way."""
    s = socket.socket()
    if buffer:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    s.settimeout(60)
    s.bind((host, 0))
    s.connect(("127.0.0.1", server.port))
    data = json.dumps(body).encode()
    s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data)
    return s


def rest_of(s):
    out = b""
    while part := s.recv(65536):
        out += part
    s.close()
    return out


def queue(bundle):
    with Server(COMMAND, [bundle], "--parallel", "1", "--queue", "1", "--max-per-client", "9") as server:
        # A client that reads nothing would hold no slot for long: so many answers that one slot has work for a while.
        first = send(server, "/v1/completions", {**LONG, "n": 2, "stream": True})
        wait_for(lambda: metric(server, "requests_processing") == 1)
        answer = rest_of(send(server, "/v1/completions", LONG))
        assert answer.startswith(b"HTTP/1.1 503") and b"\r\nRetry-After: 1\r\n" in answer and b"unavailable_error" in answer, answer
        assert server.get("/health")["status"] == "ok"  # looking at it works meanwhile
        status, body = server.post("/v1/completions", {**LONG, "n": 3})
        assert status == 400 and "3 answers" in body["error"]["message"], body  # never fits: coming again would not help
        first.close()
        # Gone: both of its answers, and the slot is free for the next.
        wait_for(lambda: metric(server, "requests_processing") + metric(server, "requests_deferred") == 0)
        assert server.post("/v1/completions", {"prompt": "x", "max_tokens": 1})[0] == 200


def sizes(bundle):
    with Server(COMMAND, [bundle], "--max-body", "1", "--max-new", "5") as server:
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
        for request in (head + b"Content-Length: 1048577\r\n\r\n", head + b"Transfer-Encoding: chunked\r\n\r\n100001\r\n",
                        head + b"Expect: 100-continue\r\nContent-Length: 99999999999999\r\n\r\n"):
            answer = server.raw(request)  # before the body came
            assert answer.startswith(b"HTTP/1.1 413") and b"1048576 bytes" in answer and b"Connection: close" in answer, answer
        whole = {"prompt": "x", "max_tokens": 1, "padding": ""}
        whole["padding"] = "y" * ((1 << 20) - len(json.dumps(whole)))
        assert server.post("/v1/completions", whole)[0] == 200  # just within
        assert server.raw(b"GET /health HTTP/1.1\r\nX: " + b"y" * 40000 + b"\r\n\r\n").startswith(b"HTTP/1.1 431")
        for prompt, count in (([5] * 512, 512), ([5] * 600, 600)):
            for path, body in (("/v1/completions", {"prompt": prompt}), ("/completion", {"prompt": prompt})):
                status, answer = server.post(path, body)
                error = answer["error"]
                assert status == 400 and (error["n_prompt_tokens"], error["n_ctx"]) == (count, 512) and error["type"] == "exceed_context_size_error", answer
                assert str(count) in error["message"] and "512" in error["message"], error
        for wanted, made in ((50, 5), (-1, 5), (3, 3)):
            status, answer = server.post("/v1/completions", {**LONG, "max_tokens": wanted})
            assert status == 200 and answer["usage"]["completion_tokens"] == made and answer["choices"][0]["finish_reason"] == "length", answer
    with Server(COMMAND, [bundle]) as server:  # the context is the end
        status, answer = server.post("/v1/completions", {"prompt": [5] * 500, "ignore_eos": True, "max_tokens": 100})
        assert status == 200 and answer["usage"]["total_tokens"] == 512 and answer["choices"][0]["finish_reason"] == "length", answer


def time_limit(bundle):
    """A text to redact that takes far longer than the limit; meanwhile chats are answered."""
    with Server(COMMAND, [bundle], "--timeout", "1") as server:
        text = "Ann Lee lives at 5 High Street, Bonn, and calls +49 228 123456. " * 1000
        start = time.time()
        slow = [send(server, "/v1/redact", {"input": text}) for _ in range(5)]
        time.sleep(0.3)
        assert server.post("/v1/completions", {"prompt": "x", "max_tokens": 1})[0] == 200
        assert time.time() - start < 10
        for s in slow:
            answer = rest_of(s)
            assert answer.startswith(b"HTTP/1.1 400") and b"the limit of 1 seconds" in answer, answer[:300]
        assert time.time() - start < 60


def hosts(bundle):
    """A page of the web whose name was turned to this machine's address gets nothing; addresses and local names do."""
    def ask(server, host, path="/health"):
        return server.raw(b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (path.encode(), host.encode()))

    strange = ("evil.example", "evil.example:8080", "EVIL.example.", "127.0.0.1.evil.example", "localhost.evil.example")
    with Server(COMMAND, [bundle], "--allow-host", "Models.Example") as server:
        for host in ("127.0.0.1", f"127.0.0.1:{server.port}", "localhost", "LOCALHOST:80", "[::1]:8080", "10.1.2.3", "x", "a.localhost", "models.example:443"):
            assert ask(server, host).startswith(b"HTTP/1.1 200"), host
        for host in strange:
            for path in ("/", "/health", "/v1/models", "/props"):
                answer = ask(server, host, path)
                assert answer.startswith(b"HTTP/1.1 403") and b"--allow-host" in answer and b"<html" not in answer, (host, answer)
    with tempfile.NamedTemporaryFile("w") as keys:  # who has the key may call it as he likes
        keys.write("secret\n")
        keys.flush()
        with Server(COMMAND, [bundle], "--api-key-file", keys.name) as server:
            assert all(ask(server, host).startswith(b"HTTP/1.1 200") for host in strange)


def stop_at_long_work(bundle):
    """Texts that are being redacted or encoded hear of the end, as answers do."""
    text = "Ann Lee lives at 5 High Street, Bonn, and calls +49 228 123456. " * 4000
    with Server(COMMAND, [bundle, bundle], "--alias", "a", "--alias", "b", "--stop-seconds", "0") as server:
        for model in "ab":
            assert server.post("/v1/completions", {"model": model, "prompt": "x", "max_tokens": 1})[0] == 200
        busy = [send(server, "/v1/redact", {"input": text}) for _ in range(3)]
        time.sleep(0.5)
        start = time.time()
        assert server.stop() == 0 and time.time() - start < 15, server.errors()
        for s in busy:
            answer = rest_of(s)
            assert answer.startswith(b"HTTP/1.1 503") and b"the server stops" in answer, answer[:300]


def redacting(bundle):
    """Counted; wrong fields are named by their names here, not by those of the command line."""
    with Server(COMMAND, [bundle, bundle], "--alias", "a", "--alias", "b") as server:
        texts = ["Mail ann.lee@example.com now", "nothing"]
        assert server.post("/v1/redact", {"input": texts})[0] == 200
        assert metric(server, "redact_texts_total") == 2 and metric(server, "redact_bytes_total") == sum(map(len, texts))
        status, body = server.post("/v1/redact", {"input": "x", "labels": ["wings"]})
        assert status == 400 and body["error"]["param"] == "labels" and "wings" in body["error"]["message"] and "--" not in body["error"]["message"], body
        status, body = server.post("/v1/redact", {"input": "x", "model": "c"})
        assert status == 404 and body["error"]["code"] == "model_not_found", body
        status, body = server.post("/v1/redact", {"input": "x", "model": "b"})
        assert status == 400 and body["error"]["param"] == "model", body


def connections(bundle):
    with Server(COMMAND, [bundle], "--max-per-client", "3", "--parallel", "8") as server:
        busy = [send(server, "/v1/completions", {**LONG, "stream": True}, buffer=1024) for _ in range(3)]
        answer = server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 503") and b"too many connections" in answer and b"Retry-After" in answer, answer
        other = send(server, "/v1/completions", {"prompt": "x", "max_tokens": 1}, host="127.0.0.2")  # somebody else is let in
        assert rest_of(other).startswith(b"HTTP/1.1 200")
        for s in busy:
            s.close()
        time.sleep(0.2)
        assert server.get("/health")["status"] == "ok"


def slow_reader(bundle):
    """Who does not read delays nobody, and still gets all of it."""
    with Server(COMMAND, [bundle], "--parallel", "2") as server:
        slow = send(server, "/v1/completions", {**LONG, "n": 2, "stream": True, "logprobs": 5}, buffer=8192)
        start = time.time()
        status, body = server.post("/v1/completions", {"prompt": "The crab", "max_tokens": 4})
        assert status == 200 and time.time() - start < 20
        wait_for(lambda: metric(server, "requests_processing") == 0, 60)  # the slots did not wait for it
        text = rest_of(slow)
        assert text.count(b"\ndata: {") + text.count(b"\r\ndata: {") > 900 and text.endswith(b"0\r\n\r\n") and b"[DONE]" in text, text[-200:]


def hang_up(bundle):
    """Streamed or not, read or still reading its prompt: a client that is gone costs no more tokens."""
    with Server(COMMAND, [bundle], "--parallel", "1", "--cache-memory", "0") as server:
        for stream in (True, False):
            before, made = metric(server, "requests_cancelled_total"), metric(server, "tokens_predicted_total")
            s = send(server, "/v1/completions", {**LONG, "stream": stream, "n": 8})
            wait_for(lambda: metric(server, "requests_processing") == 1)
            s.close()
            start = time.time()
            wait_for(lambda: metric(server, "requests_processing") == 0 and metric(server, "requests_cancelled_total") == before + 8)
            assert time.time() - start < 5
            assert metric(server, "tokens_predicted_total") - made < 8 * 490


def logs(bundle):
    """Nothing is said of requests unless asked for, and their text only where that is asked for, too."""
    for flags, lines, text in ((["--quiet"], 0, False), (["--log-json"], 3, False), (["--log-prompts"], 3, True)):
        with Server(COMMAND, [bundle], *flags) as server:
            assert server.get("/health")["status"] == "ok"  # the line that it listens came before
            server.post("/v1/completions", {"prompt": "Zanzibar", "max_tokens": 2})
            server.post("/v1/chat/completions", {"messages": "Zanzibar"})
        said = [json.loads(line) for line in server.errors().splitlines()]
        assert len(said) == lines and ("Zanzibar" in server.errors()) == text, server.errors()
        if said:
            # A line is written when the answer has gone out: two requests soon after each other may change places.
            by_path = {line["path"]: line for line in said}
            assert [by_path[path]["status"] for path in ("/health", "/v1/completions", "/v1/chat/completions")] == [200, 200, 400], said
            assert by_path["/v1/completions"]["usage"]["completion_tokens"] == 2, said


with tempfile.TemporaryDirectory() as folder:
    demo = demo_bundle(COMMAND, folder, "--context", "512", "--tokens", "1,32")
    for limit in (queue, sizes, time_limit, hosts, stop_at_long_work, redacting, connections, slow_reader, hang_up, logs):
        begin = time.time()
        limit(demo)
        print(f"{limit.__name__}: {time.time() - begin:.1f} s", flush=True)
print("all right")
