"""Where candidates train: worker processes that end with their search, and a Ray cluster that loses a node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from privaware.errors import PrivawareError
from privaware.models.spaces import point_key
from privaware.noise import Rng
from privaware.strategies._search import Search
from privaware.strategies._workers import Processes, _messages_to_stderr
from privaware.strategies.grid import Grid
from privaware.testing import rows_for
from tests.strategies.candidates import SCHEMA, VOTES, votes

PROGRAM = """
import os, sys, time
from pathlib import Path
from privaware.strategies._workers import Processes

def work(shared, job):
    Path(shared, str(os.getpid())).touch()
    time.sleep(job)

if __name__ == "__main__":
    list(Processes(2).run_jobs(work, sys.argv[1], [600, 600]))
"""


def test_worker_processes_end_with_their_search(tmp_path: Path) -> None:
    program, place = tmp_path / "program.py", tmp_path / "workers"
    program.write_text(PROGRAM)
    place.mkdir()
    search = subprocess.Popen([sys.executable, program, place], stderr=subprocess.DEVNULL)
    try:
        assert _wait(lambda: len(os.listdir(place)) == 2)
    finally:
        search.send_signal(signal.SIGKILL)
        search.wait()
    assert _wait(lambda: not any(_alive(int(name)) for name in os.listdir(place)))


def _wait(condition) -> bool:  # type: ignore[no-untyped-def]
    for _ in range(600):
        if condition():
            return True
        time.sleep(0.1)
    return False


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_worker_processes_train_candidates() -> None:
    search = Search(space=VOTES, strategy=Grid(), build=votes, held_out=0.3)
    data = rows_for(SCHEMA, 200)
    result = replace(search, workers=Processes(2)).run(data, 2.0, Rng(seed=3))
    assert point_key(result.point) in {point_key(point) for point in VOTES.points()}
    assert result.model.architecture["name"] == "constant"
    assert np.isfinite(result.score or np.nan)


RAY = """
import json, sys, threading, time
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
sys.path.insert(0, sys.argv[1])
from slow_votes import slow
from privaware import accounting
from privaware.ledger import Ledger
from privaware.noise import Rng
from privaware.strategies._journal import SearchJournal
from privaware.strategies._search import Search
from privaware.strategies._workers import Ray
from privaware.strategies.grid import Grid
from privaware.models.spaces import Space
from privaware.testing import BrokenPromise, check_mechanism, example, rows_for

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
second = cluster.add_node(num_cpus=1)
space = Space.load({"choices": {"weight": [0.5, 1.0, 2.0, 3.0, 4.0, 5.0]}, "build": {"weight": "$weight"}})
search = Search(space=space, strategy=Grid(), build=slow, held_out=0.3, population_size=1,
                workers=Ray(cluster.address), journal=Path(sys.argv[1]) / "journal")

def kill():
    while not list(Path(sys.argv[1]).glob(f"begun-{second.node_id}-*")):
        time.sleep(0.02)
    cluster.remove_node(second, allow_graceful=False)

threading.Thread(target=kill, daemon=True).start()
schema = example(rows=200)
book = Ledger.create(Path(sys.argv[1]) / "run.ledger", limit=50.0, delta=1e-5)
book.spend(search.cost(schema, 2.0), what="search", run="one")
best = search.run(rows_for(schema, 200), 2.0, Rng())
book.finish("one")
kinds = [entry.kind for entry in book.entries()]
result = {"point": best.point, "kinds": kinds, "spent": book.spent(),
        "price": accounting.epsilon(search.cost(schema, 2.0), 1e-5)}
(Path(sys.argv[1]) / "result.json").write_text(json.dumps(result))
ray.shutdown()
cluster.shutdown()
"""

SLOW = """
import time
import traceback
from pathlib import Path
import ray
from privaware.testing._strategy import Votes

HERE = Path(__file__).parent

class Slow(Votes):
    def run(self, data, noise, rng):
        node = ray.get_runtime_context().get_node_id()
        (HERE / f"begun-{node}-{self.weight}").touch()
        time.sleep(1.5)
        return super().run(data, noise, rng)

def slow(settings):
    return Slow(**settings)
"""


@pytest.mark.slow
def test_search_on_a_ray_cluster_survives_the_loss_of_a_node(tmp_path: Path) -> None:
    (tmp_path / "slow_votes.py").write_text(textwrap.dedent(SLOW))
    (tmp_path / "drive.py").write_text(textwrap.dedent(RAY))
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "OMP_NUM_THREADS": "1"}
    process = subprocess.run(
        [sys.executable, "drive.py", str(tmp_path)], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240
    )
    assert process.returncode == 0, process.stderr[-2000:]
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["point"]["weight"] in (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
    assert result["kinds"].count("spend") == 1
    assert result["spent"] == pytest.approx(result["price"], rel=1e-6)
    begun = list(tmp_path.glob("begun-*"))
    assert len(begun) > 6  # the job whose worker was lost was begun again
    assert len(list((tmp_path / "journal").glob("round-000-job-*"))) == 6


def _files(shared: list[str], job: int) -> list[str]:
    """What lies in the folder for temporary files while a worker holds rows."""
    return os.listdir(shared[0])


def test_worker_processes_write_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    shared = [str(tmp_path), "a private row " * 100_000]
    assert dict(Processes(1).run_jobs(_files, shared, [0, 1])) == {0: [], 1: []}
    assert os.listdir(tmp_path) == []


def _die(shared: str, job: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_error_of_a_killed_worker_tells_nothing_of_rows() -> None:
    row, job = "-".join(["value", "row"]), "-".join(["value", "job"])
    with pytest.raises(PrivawareError, match="a worker process was killed") as problem:
        list(Processes(1).run_jobs(_die, row, [job]))
    told = "".join(traceback.format_exception(problem.value))
    assert row not in told
    assert job not in told


def test_messages_of_ray_go_to_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    from ray._private import worker

    monkeypatch.setattr(worker, "print_to_stdstream", worker.print_to_stdstream)  # restored after the test
    _messages_to_stderr()
    worker.print_to_stdstream({"lines": ["a worker died"], "pid": "raylet", "is_err": False}, ignore_prefix=False)
    shown = capsys.readouterr()
    assert (shown.out, "a worker died" in shown.err) == ("", True)
