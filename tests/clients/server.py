"""Starts `anemone serve` for a test.
    with Server(command, [bundle], "--parallel", "4") as server: requests.get(server.url + "/health")
"""
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request


class Server:
    def __init__(self, command, bundles, *flags, port=0, env=None):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([command, "serve", *map(str, bundles), "--port", str(port), *flags],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True, env=env)
        timer = threading.Timer(120, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if "listening on " not in line:
            self.process.wait()
            raise RuntimeError("the server did not start: " + self.errors())
        self.url = line.split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
        return self.process.returncode

    def errors(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def rss(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) * 1024

    def cpu(self):
        """Seconds of processor time so far: on a busy machine they say more than a clock does."""
        try:
            with open(f"/proc/{self.process.pid}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            return time.monotonic()

    def get(self, path, timeout=60):
        with urllib.request.urlopen(self.url + path, timeout=timeout) as answer:
            text = answer.read().decode()
            return json.loads(text) if "json" in answer.headers["Content-Type"] else text

    def post(self, path, body, headers=None, timeout=120):
        """Status and JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as e:
            return e.code, json.loads(e.read())

    def raw(self, data, timeout=10, read=1 << 20):
        """What the server sends back to these bytes, until it closes or falls silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout) as s:
            s.sendall(data)
            s.settimeout(timeout)
            out = b""
            try:
                while len(out) < read:
                    part = s.recv(65536)
                    if not part:
                        break
                    out += part
            except (TimeoutError, ConnectionResetError):
                pass
            return out


def demo_bundle(command, folder, *flags):
    """The repository's demo model, converted."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    out = os.path.join(folder, "demo")
    subprocess.run([command, "convert", os.path.join(root, "examples/demo_model/demo.gguf"), "-o", out, "--quiet",
                    *flags], check=True)
    return out
