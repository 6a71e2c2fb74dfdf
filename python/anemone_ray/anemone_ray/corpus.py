"""A corpus of files: each input file becomes one output file, whole or not at all.

    anemone-ray --output clean --actors 8 'letters/*.jsonl' 'mails/*.parquet' -- --policy strict

Files are the unit of work and of resuming: an output that is there is not made again. An actor holds one anemone process.
A process, a worker or a node that is lost costs the file that it worked on; another actor takes that file. Outputs are
written beside their names and renamed when they are whole, so every document comes out exactly once.
"""

import argparse
import glob
import json
import os
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import ray

from .pipe import Pipe, PipeError
from .redactor import Redactor

BATCH = 256  # records that are sent at once
TRIES = 8  # of one file, after workers were lost


@dataclass
class Done:
    source: str
    output: str
    records: int
    errors: int


def _batches(source: str) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    with open(source, "rb") as lines:
        for line in lines:
            if not line.strip():
                continue
            batch.append(line)
            if len(batch) == BATCH:
                yield batch
                batch = []
    if batch:
        yield batch


class _Worker:
    """An actor: one anemone process for as long as it lives."""

    def __init__(self, column: str, flags: list[str], program: str):
        self._column, self._flags, self._program = column, flags, program
        self._pipe: Pipe | None = None

    def pids(self) -> tuple[int, int]:
        return os.getpid(), self._open().pid

    def redact_file(self, source: str, output: str, run: str) -> Done:
        unfinished = f"{output}.{run}-{uuid.uuid4().hex}.part"
        try:
            write = self._parquet if source.endswith(".parquet") else self._jsonl
            records, errors = write(source, unfinished)
            os.replace(unfinished, output)
        except PipeError:
            self._pipe = None  # the next file gets a new process
            raise
        finally:
            if os.path.exists(unfinished):
                os.remove(unfinished)
        return Done(source, output, records, errors)

    def _open(self) -> Pipe:
        if self._pipe is None:
            self._pipe = Pipe(self._flags, self._program, self._column)
        return self._pipe

    def _jsonl(self, source: str, target: str) -> tuple[int, int]:
        records = errors = 0
        with open(target, "wb") as out:
            for batch in _batches(source):
                for answer in self._open().redact_lines(batch):
                    records += 1
                    errors += b'"error": "line ' in answer and "error" in json.loads(answer)
                    out.write(answer)
        return records, errors

    def _parquet(self, source: str, target: str) -> tuple[int, int]:
        redactor = Redactor.over(self._open(), self._column)
        records = errors = 0
        writer = None
        try:
            for batch in pq.ParquetFile(source).iter_batches(BATCH):
                table = redactor(pa.Table.from_batches([batch]))
                writer = writer or pq.ParquetWriter(target, table.schema)
                writer.write_table(table)
                records += table.num_rows
                errors += table.num_rows - table.column("error").null_count
            if writer is None:  # no rows: the columns are there all the same
                table = redactor(pq.read_table(source))
                writer = pq.ParquetWriter(target, table.schema)
        finally:
            if writer is not None:
                writer.close()
        return records, errors


def plan(sources: Sequence[str], output: str) -> list[tuple[str, str]]:
    """Pairs of input and output. Error for two inputs of one name."""
    files = sorted({os.path.abspath(path) for pattern in sources for path in glob.glob(pattern, recursive=True)})
    if not files:
        raise FileNotFoundError(f"no file fits {', '.join(sources)}")
    pairs = [(path, str(Path(output).absolute() / Path(path).name)) for path in files]
    if len({target for _, target in pairs}) < len(pairs):
        raise ValueError("two inputs have one name; redact their folders one after the other")
    return pairs


def redact_corpus(sources: Sequence[str], output: str, *, column: str = "text", actors: int = 1, cpus: float = 1,
                  flags: Sequence[str] = (), program: str = "anemone", report=None) -> list[Done]:
    """Redacts files of JSON lines and Parquet into the folder `output`, which all nodes see. What was done this time."""
    os.makedirs(output, exist_ok=True)
    waiting = [pair for pair in plan(sources, output) if not os.path.exists(pair[1])]
    tries = {source: 0 for source, _ in waiting}
    worker_class = ray.remote(num_cpus=cpus, max_restarts=0)(_Worker)
    run = uuid.uuid4().hex
    arguments = (column, [*flags, "--threads", str(max(1, round(cpus)))], program)
    done: list[Done] = []
    running: dict = {}  # the answer that is waited for: (actor, pair)
    idle: list = []
    while waiting or running:
        while waiting and len(running) < actors:
            actor = idle.pop() if idle else worker_class.remote(*arguments)
            pair = waiting.pop(0)
            tries[pair[0]] += 1
            running[actor.redact_file.remote(*pair, run)] = (actor, pair)
        (answer,), _ = ray.wait(list(running), num_returns=1)
        actor, pair = running.pop(answer)
        try:
            done.append(ray.get(answer))
            idle.append(actor)
            if report:
                report(done[-1])
        except (ray.exceptions.RayActorError, ray.exceptions.RayTaskError, ray.exceptions.WorkerCrashedError) as problem:
            lost = not isinstance(problem, ray.exceptions.RayTaskError) or isinstance(problem.cause, PipeError)
            if not lost or tries[pair[0]] >= TRIES:
                raise
            ray.kill(actor)
            waiting.append(pair)
    for left in glob.glob(f"{glob.escape(output)}/*.{run}-*.part"):  # of workers that were lost
        os.remove(left)
    return done


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    own, flags = arguments, []
    if "--" in arguments:
        own, flags = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    parser = argparse.ArgumentParser(prog="anemone-ray", description="Redact a corpus with anemone on a Ray cluster.",
                                     epilog="Flags behind -- go to anemone redact.")
    parser.add_argument("sources", nargs="+", help="files of JSON lines or Parquet; * and ** work")
    parser.add_argument("--output", required=True, help="a folder that all nodes see")
    parser.add_argument("--column", default="text", help="the field or column of the text")
    parser.add_argument("--actors", type=int, default=1, help="processes at work at once")
    parser.add_argument("--cpus", type=float, default=1, help="cores of each")
    parser.add_argument("--program", default="anemone", help="the command")
    parser.add_argument("--address", help="of the cluster; by default a new one on this machine, or RAY_ADDRESS")
    options = parser.parse_args(own)
    ray.init(address=options.address, log_to_driver=False)
    done = redact_corpus(options.sources, options.output, column=options.column, actors=options.actors,
                         cpus=options.cpus, flags=flags, program=options.program,
                         report=lambda d: print(f"{d.source}: {d.records} records, {d.errors} errors", flush=True))
    print(f"{len(done)} files, {sum(d.records for d in done)} records, {sum(d.errors for d in done)} errors")
    return 1 if any(d.errors for d in done) else 0


if __name__ == "__main__":
    sys.exit(main())
