"""A cluster of three nodes on one machine: a process, a worker and a node are lost, and no document is.

    ANEMONE=build/release/anemone pytest python/anemone_ray/tests

Needs ray[data] and pyarrow. Skipped where ray or the command is absent. Takes about a minute.
"""

import json
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

ray = pytest.importorskip("ray")
pq = pytest.importorskip("pyarrow.parquet")
import pyarrow as pa  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

HOME = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HOME))
os.environ["PYTHONPATH"] = f"{HOME}:{os.environ.get('PYTHONPATH', '')}"

from anemone_ray import Pipe, redact_corpus, redact_dataset  # noqa: E402

ANEMONE = os.environ.get("ANEMONE") or shutil.which("anemone")
pytestmark = pytest.mark.skipif(not ANEMONE, reason="no anemone: set ANEMONE to the command")

FILES, RECORDS = 10, 40
PATTERN = ["--model", "none", "--also", "PERSON=Ann Lee"]  # the machinery is tested, not the model


@pytest.fixture(scope="module")
def cluster():
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes = [made.add_node(num_cpus=2) for _ in range(2)]
    ray.init(address=made.address, log_to_driver=False)
    yield made, nodes
    ray.shutdown()
    made.shutdown()


def write_corpus(folder: Path) -> list[str]:
    folder.mkdir()
    ids = []
    for file in range(FILES):
        rows = [{"id": f"{file}-{i}", "text": f"Ask Ann Lee about {file}-{i}.", "n": i} for i in range(RECORDS)]
        ids += [row["id"] for row in rows]
        if file % 2:
            pq.write_table(pa.Table.from_pylist(rows), folder / f"part{file}.parquet")
        else:
            (folder / f"part{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ids


def read_corpus(folder: Path) -> list[dict]:
    rows = []
    for path in sorted(folder.iterdir()):
        if path.suffix == ".parquet":
            rows += pq.read_table(path).to_pylist()
        else:
            rows += [json.loads(line) for line in path.read_text().splitlines()]
    return rows


def slow_anemone(folder: Path) -> str:
    """The command, with a pause before each answer, so that there is a middle to be killed in."""
    script = folder / "slow_anemone"
    script.write_text(
        f"#!{sys.executable}\nimport subprocess, sys, time\n"
        f"p = subprocess.Popen([{ANEMONE!r}, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "for line in sys.stdin.buffer:\n"
        "    p.stdin.write(line); p.stdin.flush()\n"
        "    time.sleep(0.05)\n"
        "    sys.stdout.buffer.write(p.stdout.readline()); sys.stdout.flush()\n"
    )
    script.chmod(0o755)
    return str(script)


def processes_of(word: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if word in command:
                found.append(int(entry.name))
    return found


def test_every_document_comes_out_once_although_workers_and_a_node_are_lost(cluster, tmp_path):
    made, nodes = cluster
    ids = write_corpus(tmp_path / "in")
    program = slow_anemone(tmp_path)
    lost = []

    def destroy():
        deadline = time.time() + 60
        while len(processes_of(program)) < 3 and time.time() < deadline:
            time.sleep(0.2)
        time.sleep(1)
        victim = processes_of(program)[0]  # an anemone process
        os.kill(victim, signal.SIGKILL)
        lost.append("process")
        time.sleep(2)
        for worker in processes_of("ray::_Worker")[:1]:  # an actor
            os.kill(worker, signal.SIGKILL)
            lost.append("worker")
        time.sleep(2)
        made.remove_node(nodes[0], allow_graceful=False)
        lost.append("node")

    killer = threading.Thread(target=destroy)
    killer.start()
    done = redact_corpus([str(tmp_path / "in" / "*")], str(tmp_path / "out"), actors=3, flags=PATTERN, program=program)
    killer.join()
    assert lost == ["process", "worker", "node"]
    assert len(done) == FILES
    rows = read_corpus(tmp_path / "out")
    assert sorted(row["id"] for row in rows) == sorted(ids)
    assert all(row["text"] == f"Ask [PERSON] about {row['id']}." for row in rows)
    assert not list((tmp_path / "out").glob("*.part"))


def test_a_second_run_makes_only_what_is_missing(cluster, tmp_path):
    write_corpus(tmp_path / "in")
    options = {"actors": 2, "flags": PATTERN, "program": ANEMONE}
    first = redact_corpus([str(tmp_path / "in" / "*")], str(tmp_path / "out"), **options)
    assert len(first) == FILES
    (tmp_path / "out" / "part3.parquet").unlink()
    second = redact_corpus([str(tmp_path / "in" / "*")], str(tmp_path / "out"), **options)
    assert [Path(d.output).name for d in second] == ["part3.parquet"]


def test_a_dataset_is_redacted_in_batches(cluster):
    rows = [{"id": i, "text": f"Ask Ann Lee {i}." if i % 7 else None} for i in range(500)]
    dataset = redact_dataset(ray.data.from_items(rows), actors=1, batch_size=64, flags=PATTERN, program=ANEMONE)
    out = {row["id"]: row for row in dataset.take_all()}
    assert len(out) == 500
    assert all(out[i]["text"] == (f"Ask [PERSON] {i}." if i % 7 else None) for i in range(500))
    assert json.loads(out[1]["spans"])[0]["label"] == "PERSON"


def test_a_pipe_keeps_order_and_bytes_and_says_errors():
    with Pipe(PATTERN, ANEMONE) as pipe:
        lines = [b'{"text": "Ann Lee %d", "x": 1.50}\n' % i for i in range(5000)]
        answers = pipe.redact_lines(lines)
        assert len(answers) == 5000
        assert all(answers[i].startswith(b'{"text": "[PERSON] %d", "x": 1.50, "spans": ' % i) for i in range(5000))
        bad = pipe.redact([{"body": "x"}])[0]
        assert bad["error"] and bad["body"] == "x"
