"""One `anemone redact --jsonl` process: objects in, the same objects out, redacted."""

import json
import subprocess
import threading
from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]


class PipeError(RuntimeError):
    """The process ended before it had answered."""


class Pipe:
    """with Pipe(["--policy", "strict"]) as pipe: pipe.redact([{"text": "Ask Ann Lee."}])

    The model is loaded once. A record keeps its fields; `text` is redacted, and `spans` says what was found. One that
    cannot be redacted gets the field `error`.
    """

    def __init__(self, flags: Sequence[str] = (), program: str = "anemone", field: str = "text"):
        self.field = field
        command = [program, "redact", "--jsonl", "--quiet", "--fields", field, *flags]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @property
    def pid(self) -> int:
        return self._process.pid

    def redact(self, records: Iterable[Record]) -> list[Record]:
        return [json.loads(line) for line in self.redact_lines([json.dumps(r).encode() + b"\n" for r in records])]

    def redact_lines(self, lines: Sequence[bytes]) -> list[bytes]:
        """The same of lines of JSON, whose other bytes stay as they are. None of them is blank."""
        lines = [line if line.endswith(b"\n") else line + b"\n" for line in lines]
        # Written by another thread: both pipes hold little, and neither side may wait for the other.
        writer = threading.Thread(target=self._write, args=(lines,), daemon=True)
        writer.start()
        answers = [self._read() for _ in lines]
        writer.join()
        return answers

    def _write(self, lines: Sequence[bytes]) -> None:
        try:
            for line in lines:
                self._process.stdin.write(line)
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # the reader says why

    def _read(self) -> bytes:
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise PipeError(f"anemone ended with status {self._process.wait()}")
        return line

    def close(self) -> int:
        """Ends the process; its exit status (1: a record could not be redacted)."""
        if not self._process.stdin.closed:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass
        self._process.stdout.close()
        return self._process.wait()

    def __enter__(self) -> "Pipe":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
