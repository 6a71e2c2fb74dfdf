"""`anemone serve` on another backend says what `anemone run` says there, four answers at once and with a known prompt.
    backend.py path/to/anemone --backend coreml
"""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

from server import Server, demo_bundle

COMMAND, FLAGS = sys.argv[1], sys.argv[2:]
PROMPTS = ["One morning Mara went to", "Once upon a time", "The crab said", "In the water there was"]


def alone(bundle, prompt):
    out = subprocess.run([COMMAND, "run", bundle, prompt, "--raw", "--max-new", "16", "--json", *FLAGS], check=True, capture_output=True,
                         text=True, stdin=subprocess.DEVNULL)
    return json.loads(out.stdout)["text"]


with tempfile.TemporaryDirectory() as folder:
    bundle = demo_bundle(COMMAND, folder, "--context", "256", "--tokens", "1,32")
    with Server(COMMAND, [bundle], "--parallel", "4", *FLAGS) as server:
        def ask(prompt):
            return server.post("/v1/completions", {"prompt": prompt, "max_tokens": 16, "temperature": 0})[1]

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            texts = [answer["choices"][0]["text"] for answer in pool.map(ask, PROMPTS)]
        assert texts == [alone(bundle, p) for p in PROMPTS], texts
        first, again = ask("Mara went to the sea. " * 8), ask("Mara went to the sea. " * 8)
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == again["usage"]["prompt_tokens"] - 1, again
        assert again["choices"][0]["text"] == first["choices"][0]["text"]
    assert server.process.returncode == 0, server.errors()
    # A device that refuses to load: the server's fault, not the request's. Clients hear no path, the log has all.
    with Server(COMMAND, [bundle], *FLAGS, env={**os.environ, "ANEMONE_DOUBLE": "fail_load=1"}) as server:
        for path, body in (("/v1/completions", {"prompt": "x", "max_tokens": 1}), ("/v1/redact", {"input": "Ann Lee"})):
            status, answer = server.post(path, body)
            assert status == 500 and answer["error"]["type"] == "server_error" and "/" not in answer["error"]["message"], answer
        assert "fault: " in server.errors(), server.errors()
print("all right")
