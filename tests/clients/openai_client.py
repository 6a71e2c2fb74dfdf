"""The openai package of PyPI against `anemone serve`, and what a server must do that the package does not ask for.
    openai_client.py path/to/anemone
Exit status 77, "skipped", where the packages openai and jsonschema are not installed.
"""
import base64
import concurrent.futures
import json
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time

try:
    import jsonschema
    import openai
except ImportError as e:
    print(f"skipped: {e.name} is not installed")
    sys.exit(77)

from server import Server, demo_bundle

COMMAND = sys.argv[1]
PROMPTS = ["One morning Mara went to the tide pool with", "Once upon a time", "The crab said", "Mara looked at the sea and",
           "It was a cold day", "In the water there was", "The little fish", "One morning Mara went to the tide pool and"]
ROBOT = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 99},
                                          "parts": {"type": "array", "items": {"enum": ["arm", "leg"]}, "minItems": 1, "maxItems": 3}},
         "required": ["name", "age", "parts"], "additionalProperties": False}
WEATHER = {"type": "function", "function": {"name": "weather", "description": "The weather of a place", "parameters": {
    "type": "object", "properties": {"place": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
    "required": ["place", "days"]}}}
checks = 0


def check(what, condition, shown=None):
    global checks
    checks += 1
    if not condition:
        raise AssertionError(f"{what}: {shown!r}")


def run_text(bundle, prompt, count):
    out = subprocess.run([COMMAND, "run", bundle, prompt, "--raw", "--max-new", str(count), "--json", "--threads", "2"],
                         check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return json.loads(out.stdout)["text"]


def chat_and_stream(client):
    messages = [{"role": "system", "content": "You tell stories."}, {"role": "user", "content": [{"type": "text", "text": PROMPTS[0]}]}]
    whole = client.chat.completions.create(model="any", messages=messages, max_tokens=24, temperature=0)
    check("an answer", whole.choices[0].message.role == "assistant" and whole.choices[0].message.content, whole)
    check("its end", whole.choices[0].finish_reason in ("length", "stop"), whole)
    check("its id", whole.id.startswith("chatcmpl-") and whole.object == "chat.completion", whole)
    check("its usage", whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens, whole)
    chunks = list(client.chat.completions.create(model="any", messages=messages, max_tokens=24, temperature=0, stream=True,
                                                 stream_options={"include_usage": True}))
    check("the first chunk", chunks[0].choices[0].delta.role == "assistant", chunks[0])
    check("one id", len({c.id for c in chunks}) == 1)
    check("the last chunk has the usage", chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0, chunks[-1])
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    check("the stream says the same", text == whole.choices[0].message.content, text)
    check("one end", [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] ==
          [whole.choices[0].finish_reason])
    two = client.chat.completions.create(model="any", messages=messages, max_tokens=8, n=2, seed=7, temperature=1.2)
    again = client.chat.completions.create(model="any", messages=messages, max_tokens=8, n=2, seed=7, temperature=1.2)
    check("two choices", [c.index for c in two.choices] == [0, 1])
    check("a seed repeats them", [c.message.content for c in two.choices] == [c.message.content for c in again.choices], two)
    stopped = client.chat.completions.create(model="any", messages=messages, max_tokens=24, temperature=0,
                                             stop=[text.split()[3]])
    check("a stop text", stopped.choices[0].finish_reason == "stop" and
          stopped.choices[0].message.content == text[:text.index(text.split()[3])], stopped)


def structured(client):
    for seed in range(6):
        answer = client.chat.completions.create(
            model="any", messages=[{"role": "user", "content": "A robot"}], temperature=1.0, seed=seed, max_tokens=200,
            response_format={"type": "json_schema", "json_schema": {"name": "robot", "schema": ROBOT, "strict": True}})
        check("JSON ends by itself", answer.choices[0].finish_reason == "stop", answer)
        jsonschema.validate(json.loads(answer.choices[0].message.content), ROBOT)
    answer = client.chat.completions.create(model="any", messages=[{"role": "user", "content": "A robot"}], temperature=0,
                                            max_tokens=60, response_format={"type": "json_object"})
    check("an object", answer.choices[0].message.content.startswith("{"), answer)


def tools(client):
    ask = dict(model="any", messages=[{"role": "user", "content": "How is the weather in Bonn?"}], tools=[WEATHER],
               temperature=0.7, seed=3, max_tokens=120)
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
        answer = client.chat.completions.create(**ask, tool_choice=choice)
        call = answer.choices[0].message.tool_calls[0]
        check("a call", answer.choices[0].finish_reason == "tool_calls" and call.function.name == "weather", answer)
        jsonschema.validate(json.loads(call.function.arguments), WEATHER["function"]["parameters"])
    calls = [c.choices[0].delta.tool_calls[0] for c in client.chat.completions.create(**ask, tool_choice="required", stream=True)
             if c.choices and c.choices[0].delta.tool_calls]
    check("a call in a stream", len(calls) == 1 and json.loads(calls[0].function.arguments), calls)
    messages = ask["messages"] + [
        {"role": "assistant", "content": None, "tool_calls": [{"id": call.id, "type": "function", "function": {
            "name": "weather", "arguments": call.function.arguments}}]},
        {"role": "tool", "tool_call_id": call.id, "content": "Rain."}]
    answer = client.chat.completions.create(model="any", messages=messages, tools=[WEATHER], tool_choice="none", max_tokens=8)
    check("no call where none is wanted", answer.choices[0].message.tool_calls is None, answer)


def chances(server, client):
    answer = client.chat.completions.create(model="any", messages=[{"role": "user", "content": PROMPTS[0]}], temperature=0,
                                            max_tokens=6, logprobs=True, top_logprobs=4)
    content = answer.choices[0].logprobs.content
    check("tokens make the text", "".join(t.token for t in content) == answer.choices[0].message.content, content)
    check("probabilities", all(t.logprob <= 0 and len(t.top_logprobs) == 4 and t.top_logprobs[0].token == t.token for t in content))
    first = client.completions.create(model="any", prompt=PROMPTS[0], temperature=0, max_tokens=1, logprobs=3)
    best = list(first.choices[0].logprobs.top_logprobs[0])
    ids = server.post("/tokenize", {"content": first.choices[0].text})[1]["tokens"]
    other = client.completions.create(model="any", prompt=PROMPTS[0], temperature=0, max_tokens=1,
                                      logit_bias={str(i): -100 for i in ids})
    check("a bias forbids a token", other.choices[0].text != first.choices[0].text, (best, other))


def responses(client):
    answer = client.responses.create(model="any", input="Tell me a story", max_output_tokens=12, temperature=0)
    check("a response", answer.id.startswith("resp_") and answer.output[0].id.startswith("msg_") and answer.output_text, answer)
    events = list(client.responses.create(model="any", input="Tell me a story", max_output_tokens=12, temperature=0, stream=True))
    check("the events", events[0].type == "response.created" and
          events[-1].type in ("response.completed", "response.incomplete"), [e.type for e in events])
    check("numbered", [e.sequence_number for e in events] == list(range(len(events))))
    check("the same text", "".join(e.delta for e in events if e.type == "response.output_text.delta") == answer.output_text)


def errors(server, client):
    for status, kind, call in [
        (400, openai.BadRequestError, lambda: client.chat.completions.create(model="any", messages=[])),
        (400, openai.BadRequestError, lambda: client.chat.completions.create(model="any", messages=[{"role": "king", "content": "x"}])),
        (400, openai.BadRequestError, lambda: client.completions.create(model="any", prompt="x", temperature=-1)),
        (400, openai.BadRequestError, lambda: client.completions.create(model="any", prompt="x", extra_body={"dry_multiplier": 1})),
        (400, openai.BadRequestError, lambda: client.chat.completions.create(
            model="any", messages=[{"role": "user", "content": "x"}],
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}})),
        (404, openai.NotFoundError, lambda: client.get("/nothing", cast_to=object)),
    ]:
        try:
            call()
            check("refused", False, call)
        except kind as e:
            check("its status and words", e.status_code == status and e.body["message"] and e.body["type"], e)
    try:
        client.completions.create(model="any", prompt="word " * 5000)
        check("too long a prompt", False)
    except openai.BadRequestError as e:
        check("both numbers", e.body["n_prompt_tokens"] > e.body["n_ctx"] > 0, e.body)
    status, body = server.post("/v1/chat/completions", b"{\"messages\": [")
    check("broken JSON", status == 400 and "JSON" in body["error"]["message"], body)
    check("no path of this machine", "/" not in json.dumps(server.get("/props")["model_path"]), server.get("/props"))
    for raw, status in [(b"GET / HTTP/9\r\n\r\n", b"505"), (b"\x16\x03\x01\x02\r\n\r\n", b"400"), (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: zz\r\n\r\n", b"400"),
                        (b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"200"), (b"GET /x HTTP/1.0\r\n\r\n", b"404"),
                        (b"POST /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"405")]:
        check("raw HTTP", server.raw(raw).startswith(b"HTTP/1.1 " + status), (raw, server.raw(raw)))


def stop_in_mid_answer(bundle):
    """Answers that outlast --stop-seconds end with an error, not in the middle of a chunk."""
    with Server(COMMAND, [bundle], "--parallel", "1", "--stop-seconds", "0") as server:
        sockets = []
        for stream in (True, False):
            body = json.dumps({"prompt": "The crab", "max_tokens": 490, "n": 8, "ignore_eos": True, "stream": stream}).encode()
            sockets.append(socket.create_connection(("127.0.0.1", server.port), 30))
            sockets[-1].sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            if stream:
                streamed = sockets[-1].recv(1000)
        start = time.time()
        check("it stops at once", server.stop() == 0 and time.time() - start < 5, server.errors())
        for s, begin, end in zip(sockets, (streamed, b"HTTP/1.1 503"), (b"0\r\n\r\n", b"}")):
            rest = streamed if begin == streamed else b""
            while part := s.recv(65536):
                rest += part
            check("clients hear it", b"the server stops" in rest and rest.startswith(begin) and rest.endswith(end), rest[-300:])
            if begin == streamed:
                check("as the last event of a stream", rest.startswith(b"HTTP/1.1 200") and b'data: {"error":' in rest.rstrip().rsplit(b"\n\n", 2)[-2], rest[-300:])


def same_as_alone(server, bundle, client):
    """Greedy text through HTTP is that of `anemone run`, for one stream and for eight at once, also with hang-ups between."""
    alone = [run_text(bundle, p, 32) for p in PROMPTS]

    def ask(i):
        chunks = client.completions.create(model="any", prompt=PROMPTS[i], temperature=0, max_tokens=32, stream=True)
        return "".join(c.choices[0].text for c in chunks if c.choices)

    def hang_up(i):
        s = socket.create_connection(("127.0.0.1", server.port))
        body = json.dumps({"prompt": PROMPTS[i], "max_tokens": 200, "ignore_eos": True, "stream": True}).encode()
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        s.recv(200)
        s.close()

    check("one by one", [ask(i) for i in range(8)] == alone)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        for _ in range(3):
            left = [pool.submit(hang_up, i) for i in range(4)]
            check("eight at once", list(pool.map(ask, range(8))) == alone)
            [f.result() for f in left]
    deadline = time.time() + 2
    while any(s["is_processing"] for s in server.get("/slots")):
        check("slots are free soon after a hang-up", time.time() < deadline, server.get("/slots"))
        time.sleep(0.05)
    story = "Mara went to the sea. " * 8
    first = client.completions.create(model="any", prompt=story, temperature=0, max_tokens=4)
    again = client.completions.create(model="any", prompt=story, temperature=0, max_tokens=4)
    check("the prompt is known", again.usage.prompt_tokens_details.cached_tokens > first.usage.prompt_tokens // 2, again.usage)
    check("and says the same", again.choices[0].text == first.choices[0].text)


def redact(server):
    status, body = server.post("/v1/redact", {"input": ["Mail ann.lee@example.com now", "nothing here"]})
    check("redacted", status == 200 and body["data"][0]["text"] == "Mail [EMAIL] now", body)
    check("where", body["data"][0]["findings"][0]["start"] == 5 and body["data"][0]["findings"][0]["end"] == 24, body)
    check("untouched", body["data"][1]["text"] == "nothing here", body)
    check("a wrong style", server.post("/v1/redact", {"input": "x", "replace": "paint"})[0] == 400)


def slow_and_idle(server, client):
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(60)]
    body = json.dumps({"prompt": PROMPTS[0], "max_tokens": 100, "ignore_eos": True, "stream": True}).encode()
    slow = socket.create_connection(("127.0.0.1", server.port))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    slow.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    start = time.time()
    client.completions.create(model="any", prompt="The crab", max_tokens=4)
    server.get("/health")
    check("others are answered meanwhile", time.time() - start < 20)
    for s in idle + [slow]:
        s.close()


def keys_and_limits(bundle, folder):
    key_file = pathlib.Path(folder) / "keys"
    key_file.write_text("# ours\nsecret-one\nsecret-two\n")
    with Server(COMMAND, [bundle], "--api-key-file", str(key_file), "--cors", "http://page.example", "--max-connections", "20",
                "--parallel", "1", "--queue", "1") as server:
        def client(key, **more):
            return openai.OpenAI(base_url=server.url + "/v1", api_key=key, **more)
        check("with a key", client("secret-two").models.list().data[0].id == "demo")
        for key in ("wrong", "secret-on", "secret-one2"):
            try:
                client(key, max_retries=0).models.list()
                check("a wrong key", False, key)
            except openai.AuthenticationError as e:
                check("401", e.body["type"] == "authentication_error")
        check("health needs none", server.get("/health")["status"] == "ok")
        answer = server.raw(b"OPTIONS /v1/models HTTP/1.1\r\nHost: x\r\nOrigin: http://page.example\r\nConnection: close\r\n\r\n")
        check("its origin may", b"Access-Control-Allow-Origin: http://page.example" in answer, answer)
        answer = server.raw(b"OPTIONS /v1/models HTTP/1.1\r\nHost: x\r\nOrigin: http://page.example\r\nAccess-Control-Request-Headers: authorization\r\nConnection: close\r\n\r\n")
        check("with its key", b"Access-Control-Allow-Headers: authorization\r\n" in answer, answer)
        answer = server.raw(b"OPTIONS /v1/models HTTP/1.1\r\nHost: x\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n")
        check("others may not", b"Access-Control" not in answer, answer)
        # More than the queue takes: some are told to come again, and the package does so by itself.
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            ask = lambda c: c.completions.create(model="x", prompt="The crab", max_tokens=30, temperature=0, extra_body={"ignore_eos": True}).choices[0].text
            impatient = [pool.submit(ask, client("secret-one", max_retries=0)) for _ in range(8)]
            codes = [getattr(f.exception(), "status_code", 200) for f in impatient]
            check("503 beyond the queue", set(codes) <= {200, 503} and 200 in codes, codes)
            patient = [pool.submit(ask, client("secret-one", max_retries=20)) for _ in range(4)]
            check("retries get there", len({f.result() for f in patient}) == 1)
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(40)]
        time.sleep(0.3)
        closed = 0
        for s in idle:
            s.settimeout(0.2)
            try:
                closed += s.recv(300) is not None
            except TimeoutError:
                pass
        check("connections beyond the limit are closed at once", closed >= 20, closed)
        for s in idle:
            s.close()
        time.sleep(1.2)
        start = time.time()
        server.get("/health")
        check("and others answered within a second", time.time() - start < 1)
        body = json.dumps({"prompt": "The crab", "max_tokens": 60, "stream": True}).encode()
        s = socket.create_connection(("127.0.0.1", server.port))
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret-one\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        s.recv(100)
        check("SIGTERM ends it with 0", server.stop() == 0, server.errors())
        rest = b""
        while part := s.recv(65536):
            rest += part
        check("the stream under way ended whole", rest.endswith(b"0\r\n\r\n"), rest[-60:])


def embeddings(folder):
    model = pathlib.Path(__file__).parent.parent.parent / ".cache/minilm"
    files = list(model.glob("**/*.safetensors")) if model.exists() else []
    if not files:
        print("embeddings: skipped, all-MiniLM-L6-v2 is not in .cache")
        return
    bundle = str(pathlib.Path(folder) / "minilm")
    subprocess.run([COMMAND, "convert", str(files[0].parent), "-o", bundle, "--quiet", "--tokens", "32"], check=True)
    with Server(COMMAND, [bundle]) as server:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
        texts = ["a cat", "a small cat", "tax law"]
        floats = client.embeddings.create(model="any", input=texts, encoding_format="float")
        packed = client.embeddings.create(model="any", input=texts)  # asks for base64
        raw = client.post("/embeddings", body={"input": texts, "encoding_format": "base64"}, cast_to=object)
        unpacked = struct.unpack("<384f", base64.b64decode(raw["data"][0]["embedding"]))
        dot = lambda a, b: sum(x * y for x, y in zip(a, b))
        v = [d.embedding for d in floats.data]
        check("length 1", abs(dot(v[0], v[0]) - 1) < 1e-5)
        check("cats are near each other", dot(v[0], v[1]) > dot(v[0], v[2]) + 0.2, [dot(v[0], v[1]), dot(v[0], v[2])])
        check("base64 says the same", max(abs(a - b) for a, b in zip(v[0], unpacked)) < 1e-6)
        check("and the package reads it", max(abs(a - b) for a, b in zip(v[2], packed.data[2].embedding)) < 1e-6)
        status, body = server.post("/v1/completions", {"prompt": "x"})
        check("no text from it", status == 400, body)


def main():
    with tempfile.TemporaryDirectory() as folder:
        bundle = demo_bundle(COMMAND, folder, "--context", "512", "--tokens", "1,32")
        with Server(COMMAND, [bundle], "--parallel", "4") as server:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", timeout=120)
            check("the models", [m.id for m in client.models.list()] == ["demo"])
            chat_and_stream(client)
            structured(client)
            tools(client)
            chances(server, client)
            responses(client)
            errors(server, client)
            same_as_alone(server, bundle, client)
            slow_and_idle(server, client)
            redact(server)
        keys_and_limits(bundle, folder)
        stop_in_mid_answer(bundle)
        embeddings(folder)
    print(f"{checks} checks, all right")


main()
