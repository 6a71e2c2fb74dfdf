"""Every field that clients send to `anemone serve`: honoured, ignored, or refused by its name.
    fields.py path/to/anemone
"""
import json
import pathlib
import sys
import tempfile
import urllib.request

from server import Server, demo_bundle

COMMAND = sys.argv[1]
ASK = {"messages": [{"role": "user", "content": "One morning Mara went to"}], "max_tokens": 12, "temperature": 0}
HOT = {"temperature": 3, "top_k": 0, "top_p": 1, "min_p": 0, "seed": 5}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 5}}, "required": ["n"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "count", "parameters": SCHEMA}}
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{{ mood }}{{ reasoning_effort }}"
checks = 0


def expect(what, condition, shown):
    global checks
    checks += 1
    assert condition, f"{what}: {shown!r:.900}"


# What is known and wrong, or known and not supported: status 400, with the name of the field.
REFUSED = {
    "model": [5], "messages": [[], 5, [5], [{}], [{"role": "user"}], [{"role": "king", "content": "x"}], [{"role": "user", "content": [{"type": "image_url"}]}]],
    "max_tokens": [-2, 1.5, "3", 1e30, True, []], "max_completion_tokens": [-2, "3"], "temperature": [-1, "hot", 1e308, True], "top_p": [1.1, -1, "x"],
    "top_k": [2.5, 10**12], "min_p": [2, -1], "stop": [["a"] * 17, [1], {"a": 1}, "x" * 100000], "seed": [2**63, 1.5, "x"], "stream": ["yes", 1],
    "stream_options": [5], "n": [0, 1000, 1.5], "top_logprobs": [21, 5], "logprobs": ["x"], "logit_bias": [5, {"5": "x"}, {"99999999": 1}, [[5]]],
    "presence_penalty": ["x", 1e300], "frequency_penalty": ["x", 1e300], "repeat_penalty": [0, -1], "repeat_last_n": [-2],
    "response_format": ["json", {}, {"type": "xml"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"schema": 5}}, {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}],
    "tools": [5, [{}], [{"type": "web_search"}], [{"type": "function", "function": {"name": "f", "parameters": 5}}]],
    "tool_choice": ["required", "x", {"function": {"name": "z"}}], "parallel_tool_calls": ["x"], "reasoning_format": ["x"], "reasoning_effort": [5],
    "chat_template_kwargs": [5], "samplers": [["z"], ["min_p", "top_k"], 5], "timings_per_token": [1], "return_progress": ["x"], "cache_prompt": [5], "ignore_eos": ["x"],
    "typ_p": [0.5], "typical_p": [0.5], "xtc_probability": [0.5], "dry_multiplier": [1], "dynatemp_range": [1], "mirostat": [1, 2], "top_n_sigma": [1],
    "t_max_predict_ms": [10], "functions": [[{"name": "f"}]], "function_call": ["auto"], "modalities": [["audio"]], "audio": [{"voice": "x"}], "grammar": [5, "x"],
    "json_schema": [5, {"not": {}}], "lora": [[{"id": 0}]], "post_sampling_probs": [True], "web_search_options": [{}], "suffix": ["x"], "echo": [True], "best_of": [2],
}
# Off, or for others: the answer is the same as without.
NOTHING = [("user", "me"), ("unknown", [1]), ("store", True), ("metadata", {"a": "b"}), ("service_tier", "auto"), ("max_completion_tokens", None), ("typ_p", 1), ("xtc_probability", 0),
           ("xtc_threshold", 0.1), ("dry_multiplier", 0), ("dry_base", 1.75), ("dry_allowed_length", 2), ("dry_penalty_last_n", -1), ("dynatemp_range", 0), ("dynatemp_exponent", 1),
           ("mirostat", 0), ("top_n_sigma", -1), ("modalities", ["text"]), ("functions", []), ("stop", [""]), ("stop", None), ("tools", []), ("tool_choice", "none"), ("response_format", {"type": "text"}),
           ("logit_bias", {}), ("presence_penalty", 0), ("frequency_penalty", 0), ("repeat_penalty", 1), ("n", 1), ("seed", -1), ("top_k", -1), ("stream", False), ("post_sampling_probs", False),
           ("reasoning_format", "auto"), ("reasoning_format", "none"), ("reasoning_format", "deepseek"), ("chat_template_kwargs", {}), ("cache_prompt", False), ("model", "any name"), ("echo", False)]


def text_of(body):
    return body["choices"][0]["message"]["content"]


def stream_of(server, body):
    """The events of a stream."""
    request = urllib.request.Request(server.url + "/v1/chat/completions", json.dumps({**body, "stream": True}).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        lines = [line[6:] for line in answer.read().decode().splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]", lines
    return [json.loads(line) for line in lines[:-1]]


def refused(server):
    for name, values in REFUSED.items():
        for value in values:
            status, body = server.post("/v1/chat/completions", {**ASK, name: value})
            expect(f"{name} {value!r:.60}", status == 400 and body["error"]["param"] == name and body["error"]["message"], (status, body))
    for name, value in [("prompt", {"id": "p"}), ("truncation", "auto"), ("previous_response_id", "r"), ("conversation", "c"), ("background", True), ("input", 5)]:
        status, body = server.post("/v1/responses", {"input": "x", "max_output_tokens": 1, name: value})
        expect(f"{name} of a response", status == 400 and body["error"]["param"] == name, (status, body))
    expect("a token that is not there", server.post("/detokenize", {"tokens": [10**9]})[0] == 400, "")
    for raw in (b"[" * 100000, b"", b"null", b'{"temperature": NaN}', b'{"messages": "\xff"}', b'{"messages": "\\ud800"}'):
        expect("no JSON object", server.post("/v1/chat/completions", raw)[0] == 400, raw[:20])


def honoured(server):
    ask = lambda **more: server.post("/v1/chat/completions", {**ASK, **more})
    plain = ask()[1]
    text, words = text_of(plain), text_of(plain).split()
    for name, value in NOTHING:
        status, body = ask(**{name: value})
        expect(f"{name} {value!r}", status == 200 and text_of(body) == text, (status, body))
    hot = [text_of(ask(**HOT)[1]) for _ in range(2)]
    other = text_of(ask(**{**HOT, "seed": 6})[1])
    expect("temperature and seed", hot[0] == hot[1] != text and other != hot[0], (hot, other, text))
    for name, value in [("top_k", 1), ("top_p", 0), ("top_p", 1e-6), ("min_p", 1)]:
        body = ask(**{**HOT, name: value})[1]
        expect(f"{name} {value} leaves the best token", text_of(body) == text, body)
    for more, count in [({"max_tokens": 3}, 3), ({"max_tokens": 9, "max_completion_tokens": 2}, 2), ({"max_completion_tokens": 4}, 4), ({"max_tokens": 1.0}, 1)]:
        body = ask(ignore_eos=True, **more)[1]
        expect(f"{more}", body["usage"]["completion_tokens"] == count and body["choices"][0]["finish_reason"] == "length", body)
    body = ask(max_tokens=-1, ignore_eos=True)[1]
    expect("max_tokens -1: to the end of the context", body["usage"]["total_tokens"] == 512, body["usage"])
    for stop in (words[2], ["never said", words[2]]):
        body = ask(stop=stop)[1]
        expect("stop", text_of(body) == text[:text.index(words[2])] and body["choices"][0]["finish_reason"] == "stop", body)
    body = ask(n=3, **HOT)[1]
    expect("n", [c["index"] for c in body["choices"]] == [0, 1, 2] and len({c["message"]["content"] for c in body["choices"]}) > 1, body)


def ids_of(body):
    return [t["id"] for t in body["choices"][0]["logprobs"]["content"]]


def tokens(server):
    ask = lambda **more: server.post("/v1/chat/completions", {**ASK, "logprobs": True, "max_tokens": 40, "ignore_eos": True, **more})[1]
    plain = ask(top_logprobs=3)
    ids, content = ids_of(plain), plain["choices"][0]["logprobs"]["content"]
    expect("logprobs", "".join(t["token"] for t in content) == text_of(plain) and all(t["logprob"] <= 0 and t["bytes"] for t in content), content)
    expect("top_logprobs", all(len(t["top_logprobs"]) == 3 and t["top_logprobs"][0]["id"] == t["id"] for t in content), content)
    expect("the plain text repeats tokens", len(set(ids)) < len(ids), ids)
    for name, value in [("presence_penalty", 100), ("frequency_penalty", 100), ("repeat_penalty", 100)]:
        made = ids_of(ask(**{name: value}))
        expect(f"{name}: nothing comes twice", len(set(made)) == len(made), made)
    again = ids_of(ask(presence_penalty=-100))
    expect("a negative presence_penalty: what was said is said again", len(set(again)) <= 2, again)
    window = ids_of(ask(repeat_penalty=100, repeat_last_n=1))
    expect("repeat_last_n", all(a != b for a, b in zip(window, window[1:])) and len(set(window)) < len(window), window)
    for bias in ({str(ids[0]): -100}, [[ids[0], False]], [{"token": ids[0], "bias": -100}]):
        expect("logit_bias forbids", ids[0] not in ids_of(ask(logit_bias=bias)), bias)
    expect("logit_bias wins", set(ids_of(ask(logit_bias={"77": 100}))) == {77}, ids)
    expect("samplers: only what is named runs", text_of(ask(**{**HOT, "top_k": 1, "samplers": ["temperature"]})) != text_of(plain), plain)
    expect("samplers: top_k runs", text_of(ask(**{**HOT, "top_k": 1, "samplers": ["top_k", "temperature"]})) == text_of(plain), plain)
    expect("samplers as letters", text_of(ask(**{**HOT, "top_k": 1, "samplers": "kt"})) == text_of(plain), plain)
    expect("samplers without penalties", ids_of(ask(presence_penalty=100, samplers=["top_k", "temperature"])) == ids, ids)


def forms(server):
    ask = lambda **more: server.post("/v1/chat/completions", {**ASK, "max_tokens": 200, "temperature": 1, "seed": 4, **more})[1]
    for form in ({"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}, {"type": "json_schema", "schema": SCHEMA}, {"type": "json_object", "schema": SCHEMA}):
        expect("response_format", json.loads(text_of(ask(response_format=form)))["n"] in (3, 4, 5), form)
    expect("json_object", text_of(ask(response_format={"type": "json_object"})).startswith("{"), "")
    expect("json_schema", json.loads(text_of(ask(json_schema=SCHEMA)))["n"] in (3, 4, 5), "")
    expect("grammar", text_of(ask(grammar='root ::= "yes" | "no"')) in ("yes", "no"), "")
    for choice in ("required", {"type": "function", "function": {"name": "count"}}):
        body = ask(tools=[TOOL], tool_choice=choice)
        call = body["choices"][0]["message"]["tool_calls"][0]["function"]
        expect("tools and tool_choice", call["name"] == "count" and json.loads(call["arguments"])["n"] in (3, 4, 5) and body["choices"][0]["finish_reason"] == "tool_calls", body)
    expect("tool_choice none", ask(tools=[TOOL], tool_choice="none")["choices"][0]["message"].get("tool_calls") is None, "")


def streams(server):
    plain = text_of(server.post("/v1/chat/completions", ASK)[1])
    events = stream_of(server, ASK)
    expect("stream", "".join(e["choices"][0]["delta"].get("content") or "" for e in events if e["choices"]) == plain, events)
    expect("the first event", events[0]["choices"][0]["delta"] == {"role": "assistant", "content": None}, events[0])
    expect("one id", len({e["id"] for e in events}) == 1, events)
    expect("no timings without a wish", not any("timings" in e for e in events if e["choices"] and not e["choices"][0]["finish_reason"]), events)
    events = stream_of(server, {**ASK, "stream_options": {"include_usage": True}})
    expect("include_usage", events[-1]["choices"] == [] and events[-1]["usage"]["completion_tokens"] > 0, events[-1])
    events = stream_of(server, {**ASK, "timings_per_token": True})
    expect("timings_per_token", sum("timings" in e for e in events) > 5 and all(k in events[-1]["timings"] for k in (
        "prompt_n", "prompt_ms", "prompt_per_second", "predicted_n", "predicted_ms", "predicted_per_second", "cache_n")), events)
    events = stream_of(server, {**ASK, "return_progress": True, "cache_prompt": False, "messages": [{"role": "user", "content": "Mara went. " * 30}]})
    steps = [e["prompt_progress"] for e in events if "prompt_progress" in e]
    expect("return_progress", len(steps) > 1 and steps[-1]["processed"] == steps[-1]["total"] > steps[0]["processed"], steps)


def messages(server):
    template = lambda body: server.post("/apply-template", body)[1]["prompt"]
    said = template({"messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                                  {"role": "assistant", "content": "c"}, {"role": "tool", "tool_call_id": "1", "content": "d"}]})
    expect("roles and parts", said == "<system>Be brief.\n<user>a\nb\n<assistant>c\n<tool>d\n", said)
    said = template({"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"mood": "glad"}, "reasoning_effort": "high"})
    expect("chat_template_kwargs and reasoning_effort", said == "<user>a\ngladhigh", said)


with tempfile.TemporaryDirectory() as folder:
    bundle = demo_bundle(COMMAND, folder, "--context", "512", "--tokens", "1,32")
    with Server(COMMAND, [bundle]) as server:
        refused(server)
        honoured(server)
        tokens(server)
        forms(server)
        streams(server)
    file = pathlib.Path(folder) / "template.jinja"
    file.write_text(TEMPLATE)
    with Server(COMMAND, [bundle], "--template", str(file)) as server:
        messages(server)
print(f"{checks} checks, all right")
