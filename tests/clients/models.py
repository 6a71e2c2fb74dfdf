"""Several models behind one `anemone serve`: loaded by name when asked for, dropped when idle, loaded again.
    models.py path/to/anemone
"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile
import time

from server import Server, demo_bundle

SHIPPED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../models/privacy-small")

COMMAND = sys.argv[1]
IDLE_SECONDS = 1


def loaded(server):
    return {m["id"] for m in server.get("/v1/models")["data"] if m["meta"]["loaded"]}


def ask(server, model, count=8):
    status, body = server.post("/v1/completions", {"model": model, "prompt": "Once upon a time", "max_tokens": count, "temperature": 0, "ignore_eos": True})
    assert status == 200 and body["model"] == model, (status, body)
    return body["choices"][0]["text"]


def total(server, name):
    return next(float(line.split()[1]) for line in server.get("/metrics").splitlines() if line.startswith(f"llamacpp:{name} "))


def wait_for(what, seconds=30):
    end = time.time() + seconds
    while not what():
        assert time.time() < end, what
        time.sleep(0.05)


with tempfile.TemporaryDirectory() as folder:
    one = demo_bundle(COMMAND, folder, "--context", "512", "--tokens", "1,32")
    # Other weights: other texts, so that an answer says whose it is.
    two = os.path.join(folder, "two")
    subprocess.run([COMMAND, "compress", one, "-o", two, "--quiet", "--palettize", "2", "--fast"], check=True)
    with Server(COMMAND, [one, two, one], "--alias", "a", "--alias", "b", "--alias", "c", "--idle-minutes", str(IDLE_SECONDS / 60)) as server:
        assert loaded(server) == {"a"}, loaded(server)
        texts = {name: ask(server, name) for name in "abc"}
        assert texts["a"] == texts["c"] != texts["b"], texts
        assert loaded(server) == {"a", "b", "c"}, loaded(server)
        status, body = server.post("/v1/completions", {"model": "d", "prompt": "x"})
        assert status == 404 and body["error"]["code"] == "model_not_found", body

        # A long answer keeps its model; the others go, and their memory with them.
        full = server.rss()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            def busy():
                end = time.time() + 4 * IDLE_SECONDS
                while time.time() < end:
                    ask(server, "b", 400)
            work = pool.submit(busy)
            wait_for(lambda: loaded(server) == {"b"})
            work.result()
        wait_for(lambda: not loaded(server))
        assert server.rss() < full, (server.rss(), full)
        made = total(server, "tokens_predicted_total")
        assert made >= 24, made

        # Who comes next waits for it, also in the moment of the drop, and gets the same answer.
        for name in "abc":
            assert ask(server, name) == texts[name]
        assert total(server, "tokens_predicted_total") == made + 24
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            def visit(name):
                for i in range(10):  # around the time when it is dropped, a little later each time
                    assert ask(server, name) == texts[name]
                    time.sleep(IDLE_SECONDS - 0.2 + 0.12 * i)
            for done in [pool.submit(visit, name) for name in "abc"]:
                done.result()
    assert server.process.returncode == 0, server.errors()

    # A model that redacts for longer than the idle time stays loaded meanwhile.
    filter = os.path.join(folder, "filter")
    subprocess.run([COMMAND, "convert", os.path.join(SHIPPED, "checkpoint"), "-o", filter, "--quiet"], check=True)
    with Server(COMMAND, [one, filter], "--alias", "a", "--alias", "filter", "--idle-minutes", str(IDLE_SECONDS / 60)) as server:
        def redact(count):
            return server.post("/v1/redact", {"model": "filter", "input": "Ann Lee lives at 5 High Street, Bonn. " * count})
        status, few = redact(1)
        assert status == 200 and few["model"] == "filter", few
        wait_for(lambda: "filter" not in loaded(server))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            count = 500
            while True:  # long enough for three idle times on any machine
                begin = time.time()
                work = pool.submit(redact, count)
                wait_for(lambda: "filter" in loaded(server) or work.done())
                while not work.done():
                    assert "filter" in loaded(server) or work.done()
                    time.sleep(0.1)
                status, many = work.result()
                assert status == 200 and many["data"][0]["text"].startswith(few["data"][0]["text"].strip()), many
                if time.time() - begin > 3 * IDLE_SECONDS:
                    break
                count *= 4
        wait_for(lambda: "filter" not in loaded(server))

    # A text that its windows cannot hold is the client's matter.
    small = os.path.join(folder, "small")
    subprocess.run([COMMAND, "convert", os.path.join(SHIPPED, "checkpoint"), "-o", small, "--tokens", "256", "--quiet"], check=True)
    with Server(COMMAND, [small], "--alias", "small") as server:
        status, body = server.post("/v1/redact", {"model": "small", "input": "word " * 1000})
        assert status == 400 and body["error"]["param"] == "input" and "256 tokens" in body["error"]["message"], body
print("all right")
