"""Requests that want to break `anemone serve`: schemas, grammars and JSON that cost far more than their size, and errors that
could tell where files are. Each is answered soon, others are answered meanwhile, and no answer names a path.
    hostile.py path/to/anemone [--bundle BUNDLE] [--seconds 10]
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import tempfile
import threading
import time

from server import Server, demo_bundle

arguments = argparse.ArgumentParser()
arguments.add_argument("command")
arguments.add_argument("--bundle")
arguments.add_argument("--seconds", type=float, default=10, help="most processor time for one of them")
args = arguments.parse_args()
PATH = re.compile(r"(^|[^\w<:/])/(home|root|tmp|usr|work|var|etc|opt|wt|Users|private)/|\.mlpackage/|weight\.bin")
USER = [{"role": "user", "content": "x"}]
slowest = (0.0, "")


def nested(n, inner={"type": "null"}):
    for _ in range(n):
        inner = {"type": "array", "items": inner}
    return inner


def chain(n, last):
    return {"$ref": "#/$defs/d0", "$defs": {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}", "nullable": True}] * 2} for i in range(n)} | {f"d{n}": last}}


PATTERNS = ["^(a+)+$", "^(a|a|a)*b$", "^(a|aa|aaa|aaaa|aaaaa)*$", "^(x+x+)+y$", "^(.*,){20}x$", "^(a?){500}a{500}$", "^[a-z]{1,4000}[a-z]{1,4000}$",
            "^(([a-z]{1,100}){1,100}){1,100}$", "^(a*)*$", "(((((((((a{5000}){5000}){5000}){5000}){5000}){5000}){5000}){5000}){5000})", "(" * 60 + "a" + ")" * 60,
            "^([a-z]|[b-z]|[c-z]|[d-z]|.)+(.|..|...|....){0,200}(.|[^x])+$", "^(.|.|.){0,300}.{0,300}.{0,300}$", "^" + "(a|b|ab|ba)?" * 400 + "$", ".*a.{12}$",
            "^(a|b)*a(a|b){14}$", "^" + "[a-z]*" * 200 + "$", "a" * 150000]
SCHEMAS = [
    nested(90), nested(60), {"$ref": "#"}, {"anyOf": [{"$ref": "#"}]}, {"allOf": [{"$ref": "#"}]}, {"oneOf": [{"$ref": "#"}, {"$ref": "#"}]},
    {"$ref": "#", "minLength": 1}, {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, chain(40, {"type": "string"}), chain(14, {"enum": list(range(2000))}),
    {"type": "array", "minItems": 10**6}, {"type": "array", "minItems": 10**18}, {"type": "array", "minItems": 9000, "items": {"type": "string"}},
    {"type": "string", "minLength": 10**6}, {"type": "string", "maxLength": 60000}, {"type": "string", "minLength": 30000, "maxLength": 60000},
    {"type": "array", "maxItems": 300, "items": nested(40)},
    {"enum": [f"{i * 7919 % 100003}" for i in range(100000)]}, {"enum": list(range(150000))}, {"enum": ["y" * 500000]},
    {"allOf": [{"enum": [1] * 60000}, {"enum": [2] * 60000}]}, {"oneOf": [{"const": i} for i in range(20000)]},
    {"oneOf": [{"type": "object", "properties": {f"p{j}": {"const": i} for j in range(50)}, "required": ["p49"]} for i in range(300)]},
    {"oneOf": [{"enum": list(range(i * 1000, i * 1000 + 1000))} for i in range(60)]},
    {"anyOf": [{"$ref": "#/$defs/big", "nullable": True}] * 8000, "$defs": {"big": {"description": "z" * 500000}}},
    {"type": "object", "properties": {f"k{i}": {} for i in range(15000)}}, {"type": "object", "properties": {f"k{i}": {} for i in range(3000)}},
    {"type": "object", "properties": {f"k{i}": {"type": "null"} for i in range(9000)}, "required": [f"k{i}" for i in range(9000)]},
    {"type": "object", "properties": {"n" * 100000: {}}, "additionalProperties": True}, {"type": "object", "properties": {"n" * 900: {}}, "additionalProperties": True},
    {"type": "object", "required": [f"r{i}" for i in range(12000)]}, {"type": 5}, {"allOf": [{"type": 5}, {"type": 6}]}, {"type": "string", "nullable": "x"},
    {"properties": {"a": 5}}, {"properties": [5]}, {"allOf": [{"properties": 5}, {"properties": 6}]}, {"$ref": 5}, {"oneOf": [{"$ref": 5}, {"$ref": 6}]},
    {"required": 5}, {"enum": {}}, {"allOf": [{"required": 5}, {"required": [6]}]}, {"minimum": -1e308, "maximum": 1e308},
    *({"type": "string", "pattern": p} for p in PATTERNS),
]
GRAMMARS = ["root ::= " + "(" * 2000, "root ::= " + "(" * 90 + '"a"' + ")*" * 90, "\n".join(f"r{i} ::= r{i + 1} \"a\"" for i in range(12000)) + "\nr12000 ::= \"b\"\nroot ::= r0",
            "root ::= (" + "|".join(['"a" root'] * 3000) + '| "b")', 'root ::= ("a"? "a"? "a"? "a"?){3000} "b"', "root ::= [a-z]{1,60000}", 'root ::= "a" root "a" | "a"',
            'root ::= (a | b)* "z"\na ::= ("x" | "xx" | "xxx") a?\nb ::= ("x" | "xx") b? "y"?', "root ::= " + " ".join([".?"] * 5000),
            "root ::= " + "|".join(f"[{chr(0x4e00 + i)}-{chr(0x5000 + 2 * i)}]" for i in range(3000)) + "+"]
DEEP = "[" * 100000 + "]" * 100000
BODIES = [
    b"[" * 1000000, b'{"a":' * 200000, b'{"messages":' + b"[" * 150 + b"]" * 150 + b"}", b"{" + b",".join(b'"%d":0' % i for i in range(1500000)) + b"}",
    b'{"messages":[{"role":"user","content":"x"}],"max_tokens":1,"logit_bias":{' + b",".join(b'"%d":0' % i for i in range(200000)) + b"}}",
    json.dumps({"messages": [*USER, {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": DEEP}}]},
                             {"role": "tool", "tool_call_id": "1", "content": "x"}], "max_tokens": 1}).encode(),
    json.dumps({"messages": [*USER, {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {
        "name": "f", "arguments": "{" + ",".join(f'"{i}":0' for i in range(500000)) + "}"}}]}, *USER], "max_tokens": 1}).encode(),
    json.dumps({"messages": USER, "chat_template_kwargs": {"x": json.loads("[" * 190 + "]" * 190)}, "max_tokens": 1}).encode(),
    json.dumps({"messages": USER * 20000, "max_tokens": 1}).encode(), json.dumps({"messages": [{"role": "user", "content": "a" * 8000000}], "max_tokens": 1}).encode(),
    json.dumps({"messages": [{"role": "user", "content": " " * 8000000}], "max_tokens": 1}).encode(),
    json.dumps({"messages": [{"role": "user", "content": "\u0301" * 2000000}], "max_tokens": 1}).encode(),
    json.dumps({"messages": USER, "stop": ["x"] * 100000, "max_tokens": 1}).encode(),
    json.dumps({"messages": USER, "max_tokens": 1, "tool_choice": "required", "tools": [{"type": "function", "function": {"name": f"f{i}", "parameters": nested(50)}} for i in range(128)]}).encode(),
    json.dumps({"messages": USER, "max_tokens": 1, "tools": [{"type": "function", "function": {"name": "f" * 100000, "description": "d" * 3000000}}]}).encode(),
]


def no_path(answer):
    text = answer if isinstance(answer, str) else json.dumps(answer)
    assert not PATH.search(text), text[max(0, PATH.search(text).start() - 200):][:600]


def ask(server, path, body, expect=(200, 400)):
    global slowest
    start = server.cpu()
    status, answer = server.post(path, body, timeout=600)
    seconds = server.cpu() - start
    shown = body[:80] if isinstance(body, bytes) else json.dumps(body)[:160]
    slowest = max(slowest, (seconds, str(shown)))
    assert status in expect, (status, answer, shown)
    assert seconds < args.seconds, (seconds, shown)
    no_path(answer)


class Neighbour(threading.Thread):
    """Somebody else, who wants a token now and then."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.stop, self.slowest, self.asked = server, False, 0.0, 0

    def run(self):
        while not self.stop:
            start = time.time()
            status, _ = self.server.post("/v1/completions", {"prompt": "The crab", "max_tokens": 1})
            assert status == 200
            self.slowest, self.asked = max(self.slowest, time.time() - start), self.asked + 1
            time.sleep(0.1)


def bounded(bundle):
    with Server(args.command, [bundle], "--parallel", "4") as server:
        neighbour = Neighbour(server)
        neighbour.start()
        sampling = {"max_tokens": 12, "temperature": 1.5, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 1}
        for schema in SCHEMAS:
            ask(server, "/v1/chat/completions", {"messages": USER, **sampling, "response_format": {"type": "json_schema", "json_schema": {"schema": schema}}})
        ask(server, "/v1/chat/completions", {"messages": USER, **sampling, "tool_choice": "required", "tools": [
            {"type": "function", "function": {"name": f"f{i}", "parameters": s}} for i, s in enumerate(SCHEMAS[:20])]})
        for grammar in GRAMMARS:
            ask(server, "/v1/completions", {"prompt": "x", **sampling, "grammar": grammar})
        for body in BODIES:
            ask(server, "/v1/chat/completions", body, (200, 400, 413))
        neighbour.stop = True
        neighbour.join()
        assert server.process.poll() is None, server.errors()
        print(f"{len(SCHEMAS)} schemas, {len(GRAMMARS)} grammars, {len(BODIES)} bodies; the slowest took {slowest[0]:.1f} s of processor time: {slowest[1]}; "
              f"a neighbour was answered {neighbour.asked} times, at worst after {neighbour.slowest:.1f} s")
        assert neighbour.asked > 5
    assert server.process.returncode == 0, server.errors()


ENDPOINTS = ["/v1/chat/completions", "/v1/completions", "/completion", "/v1/responses", "/v1/embeddings", "/v1/redact", "/tokenize", "/detokenize", "/apply-template",
             "/v1/chat/completions/input_tokens", "/props", "/slots", "/metrics", "/v1/models", "/bundle", "/bundle/graph", "/health", "/nothing", "/../etc/passwd", "/%2e%2e/x"]


def every_answer(server, model):
    """What every endpoint says to right and wrong requests."""
    whole = {"model": model, "messages": USER, "prompt": "x", "input": "x", "content": "x", "tokens": [5], "max_tokens": 1}
    for path in ENDPOINTS:
        for body in (whole, {**whole, "stream": True}, {"model": model}, {**whole, "messages": 5, "prompt": 5, "input": 5, "tokens": [-1], "content": 5}, [], b"{"):
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            for method in (b"POST", b"GET", b"PUT"):
                answer = server.raw(method + b" %s?model=%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (path.encode(), model.encode(), len(data)) + data)
                assert answer.startswith(b"HTTP/1.1 "), answer
                no_path(re.sub(r'"(prompt|content|text)":"[^"]*"', "", answer.decode()))


def no_paths(bundle, folder):
    """A bundle that is broken after the start, in each of its files, and one with a template that fails."""
    names = {}
    for i, damage in enumerate(("remove", "cut", "text", "folder")):
        for kind in ("bundle.json", "tokenizer", "weights", "model"):
            name = f"{damage}-{kind}"
            copy = os.path.join(folder, name)
            shutil.copytree(bundle, copy)
            names[name] = (copy, damage, kind)
    template = pathlib.Path(folder) / "template.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}{{ raise_exception('no ' + m.role) if m.content == 'x' }}{% endfor %}{{ 1 / zero }}")
    with Server(args.command, [bundle, *(c for c, _, _ in names.values())], "--template", str(template)) as server:
        for copy, damage, kind in names.values():
            for file in pathlib.Path(copy).rglob("*"):
                hit = {"bundle.json": file.name == "bundle.json", "tokenizer": "token" in file.name, "weights": file.name == "weight.bin", "model": file.name == "model.mlmodel"}[kind]
                if not file.is_file() or not hit:
                    continue
                data = file.read_bytes()
                file.unlink()
                if damage == "cut":
                    file.write_bytes(data[:len(data) // 2])
                elif damage == "text":
                    file.write_text('{"x": 5}')
                elif damage == "folder":
                    file.mkdir()
        refused = 0
        for name in names:
            status, answer = server.post("/v1/completions", {"model": name, "prompt": "x", "max_tokens": 1})
            assert status in (200, 500), answer  # a file that is not read when loading stays unnoticed
            refused += status == 500
            no_path(answer)
        assert refused >= len(names) // 2, refused
        every_answer(server, os.path.basename(bundle))
        every_answer(server, "remove-weights")
        status, answer = server.post("/v1/chat/completions", {"messages": USER})
        assert status == 400 and "no user" in answer["error"]["message"], answer
        no_path(server.errors() if "Traceback" in server.errors() else "")
        assert server.process.poll() is None
    print(f"{len(names)} broken bundles, {len(ENDPOINTS)} addresses: no path in any answer")


with tempfile.TemporaryDirectory() as folder:
    demo = args.bundle or demo_bundle(args.command, folder, "--context", "512", "--tokens", "1,32")
    bounded(demo)
    if not args.bundle:
        no_paths(demo, folder)
print("all right")
