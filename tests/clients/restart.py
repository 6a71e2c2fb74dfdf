"""A text that `anemone serve --cache-dir` has read is known after a restart.
    restart.py path/to/anemone
"""
import os
import sys
import tempfile

from server import Server, demo_bundle

COMMAND = sys.argv[1]
STORY = "Mara went to the sea and looked at the small crabs. " * 12


def ask(server):
    status, body = server.post("/v1/completions", {"prompt": STORY, "max_tokens": 16, "temperature": 0})
    assert status == 200, body
    return body["choices"][0]["text"], body["usage"]["prompt_tokens_details"]["cached_tokens"], body["usage"]["prompt_tokens"]


with tempfile.TemporaryDirectory() as folder:
    bundle = demo_bundle(COMMAND, folder, "--context", "512", "--tokens", "1,32")
    cache = os.path.join(folder, "cache")
    with Server(COMMAND, [bundle], "--cache-dir", cache) as server:
        first, cached, tokens = ask(server)
        assert cached == 0, cached
    files = os.listdir(cache)
    assert len(files) == 1 and os.stat(os.path.join(cache, files[0])).st_mode & 0o777 == 0o600, files
    with Server(COMMAND, [bundle], "--cache-dir", cache) as server:
        again, cached, _ = ask(server)
        assert (again, cached) == (first, tokens - 1), (first, again, cached, tokens)
        metrics = server.get("/metrics")
        assert "llamacpp:cache_files_read_total 1\n" in metrics, metrics
    # Another arithmetic makes other caches: the file is named and left alone.
    with Server(COMMAND, [bundle], "--cache-dir", cache, "--arith", "fp32") as server:
        assert ask(server)[1] == 0
        assert "other models or settings" in server.errors(), server.errors()
    # A damaged one is said, too.
    path = os.path.join(cache, files[0])
    data = bytearray(open(path, "rb").read())
    data[len(data) // 2] ^= 1
    open(path, "wb").write(data)
    with Server(COMMAND, [bundle], "--cache-dir", cache) as server:
        text, cached, _ = ask(server)
        assert (text, cached) == (first, 0), (text, cached)
        assert "damaged" in server.errors(), server.errors()
print("all right")
