"""The cache of models is shared with huggingface_hub: each finds what the other downloaded.

    hub_cache.py serve_hub anemone

serve_hub is a hub on 127.0.0.1; nothing leaves the machine.
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

serve_hub, anemone = sys.argv[1:]
work = tempfile.TemporaryDirectory()
root = pathlib.Path(work.name)

# Two repositories: one in safetensors with a module's folder, one in GGUF.
FILES = {
    "tiny/model": {
        "config.json": b'{"model_type": "tiny"}',
        "tokenizer.json": b"t" * 5000,
        "modules.json": b"[]",
        "1_Pooling/config.json": b"{}",
        "model.safetensors": os.urandom(200_000),
        "pytorch_model.bin": os.urandom(3000),
    },
    "tiny/gguf": {"m.Q8_0.gguf": os.urandom(100_000), "m.Q4_0.gguf": os.urandom(50_000)},
}
for repo, files in FILES.items():
    for name, data in files.items():
        path = root / "served" / repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

server = subprocess.Popen([serve_hub, root / "served"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
endpoint = server.stdout.readline().strip()
for name in list(os.environ):
    if name.startswith(("HF_", "HUGGING")) or name.lower().endswith("_proxy"):
        del os.environ[name]
os.environ.update(HF_ENDPOINT=endpoint, HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1", no_proxy="127.0.0.1,localhost",
                  HF_HUB_DISABLE_PROGRESS_BARS="1", HF_HUB_DISABLE_UPDATE_CHECK="1")


def python(home, code):
    """Runs huggingface_hub in a process of its own: it reads its variables once."""
    env = dict(os.environ, HF_HOME=str(home))
    run = subprocess.run([sys.executable, "-c", "import huggingface_hub as h, json\n" + code], env=env,
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def fetch(home, *arguments, status=0):
    run = subprocess.run([anemone, "fetch", "--json", *arguments], env=dict(os.environ, HF_HOME=str(home)),
                         capture_output=True, text=True)
    assert run.returncode == status, run.stderr
    return json.loads(run.stdout) if status == 0 else run.stderr


def layout(home):
    """Every file and link of the cache that both programs must agree on."""
    out = {}
    cache = pathlib.Path(home) / "hub"
    for path in sorted(cache.rglob("*")):
        name = path.relative_to(cache).as_posix()
        if name.startswith((".locks", "CACHEDIR")) or "/trees" in name or path.is_dir():
            continue
        out[name] = os.readlink(path) if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest()
    return out


ours, theirs = root / "ours", root / "theirs"
wanted = [n for n in FILES["tiny/model"] if n != "pytorch_model.bin"]

# What we download, it finds without asking the hub.
got = fetch(ours, "tiny/model")
assert sorted(f["name"] for f in got["files"]) == sorted(wanted), got
for name in wanted:
    path = python(ours, f"print(json.dumps(h.hf_hub_download('tiny/model', {name!r}, local_files_only=True)))")
    assert pathlib.Path(path).read_bytes() == FILES["tiny/model"][name], name
snapshot = python(ours, "print(json.dumps(h.snapshot_download('tiny/model', local_files_only=True)))")
assert snapshot == got["path"], (snapshot, got["path"])
gguf = fetch(ours, "tiny/gguf/m.Q8_0.gguf")["path"]
assert python(ours, "print(json.dumps(h.hf_hub_download('tiny/gguf', 'm.Q8_0.gguf', local_files_only=True)))") == gguf
repos = python(ours, "print(json.dumps([[r.repo_id, r.nb_files, r.size_on_disk] for r in h.scan_cache_dir().repos]))")
assert sorted(repos) == [["tiny/gguf", 1, 100_000],
                         ["tiny/model", len(wanted), sum(len(FILES["tiny/model"][n]) for n in wanted)]], repos
warnings = python(ours, "print(json.dumps([str(w) for w in h.scan_cache_dir().warnings]))")
assert warnings == [], warnings

# What it downloads, we find: offline, and without downloading a byte again.
python(theirs, f"print(json.dumps(h.snapshot_download('tiny/model', allow_patterns={wanted!r})))")
python(theirs, "print(json.dumps(h.hf_hub_download('tiny/gguf', 'm.Q8_0.gguf')))")
offline = fetch(theirs, "tiny/model", "--offline")
assert sorted(f["name"] for f in offline["files"]) == sorted(wanted), offline
online = fetch(theirs, "tiny/model")
assert online["path"] == offline["path"] and not any(f["downloaded"] for f in online["files"]), online
assert fetch(theirs, "tiny/gguf/m.Q8_0.gguf", "--offline")["commit"]
assert "m.Q4_0.gguf" in fetch(theirs, "tiny/gguf/m.Q4_0.gguf", "--offline", status=2)

# Both leave the same names, links and bytes.
assert layout(ours) == layout(theirs), (layout(ours), layout(theirs))

server.stdin.close()
server.wait()
print("huggingface_hub and anemone share one cache: fine")
