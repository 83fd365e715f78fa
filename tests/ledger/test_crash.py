"""The ledger under faults: killed processes, many processes, full disks and locked folders."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from privaware.errors import WrongInput
from privaware.events import Pure
from privaware.ledger import Ledger

DELTA = 1e-5
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0

HEAD = """
import os, sys
from pathlib import Path
from privaware import accounting
from privaware.errors import BudgetExceeded, WrongInput
from privaware.events import Pure
from privaware.ledger import Ledger
accounting.epsilon(Pure(epsilon=0.1), 1e-5)  # its imports take longest: have them before anything starts
path = Path(sys.argv[1])
"""


def python(script: str, *arguments: object) -> subprocess.Popen[str]:
    code = HEAD + textwrap.dedent(script)
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def answer(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate("go\n", timeout=120)
    assert process.returncode == 0
    return out


# Killed


FOREMAN = """
import signal, time

def work(turn):
    if not path.exists():  # creation is as open to the axe as any later moment
        Ledger.open_or_create(path, limit=1e6, delta=1e-5)
    ledger = Ledger.open(path)
    for number in range(10**9):
        entry = ledger.spend(Pure(epsilon=0.001), what="a count", run=f"{turn} {number}")
        os.write(1, f"{entry.number} {entry.hash}\\n".encode())

for line in sys.stdin:
    turn, seconds = line.split()
    worker = os.fork()
    if worker == 0:
        work(turn)
    time.sleep(float(seconds))
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    os.write(1, b"killed\\n")
"""


def killed_spends(path: Path, kills: int, rng: random.Random) -> int:
    """Kills that many spenders at random moments; returns how many spends they reported."""
    reported: dict[int, str] = {}
    with python(FOREMAN, path) as foreman:
        assert foreman.stdout is not None
        assert foreman.stdin is not None
        for turn in range(kills):
            foreman.stdin.write(f"{turn} {rng.uniform(0, 0.3)}\n")
            foreman.stdin.flush()
            for line in iter(foreman.stdout.readline, "killed\n"):
                number, digest = line.split()
                reported[int(number)] = digest
            if not path.exists():
                assert not reported
                continue
            assert Ledger.verify(path) == []
            stored = {entry.number: entry.hash for entry in Ledger.open(path).entries()}
            assert reported.items() <= stored.items()
            assert len(stored) - 1 <= len(reported) + turn + 1  # at most one unreported for each kill
    return len(reported)


def test_p33_killed_spends_are_never_lost(tmp_path: Path) -> None:
    assert killed_spends(tmp_path / "rows.ledger", kills=12, rng=random.Random(33)) > 0


@pytest.mark.slow
def test_p33_two_hundred_killed_spends_are_never_lost(tmp_path: Path) -> None:
    assert killed_spends(tmp_path / "rows.ledger", kills=200, rng=random.Random(34)) > 200


def test_p33_a_killed_run_resumes_without_a_second_charge(tmp_path: Path) -> None:
    path = tmp_path / "rows.ledger"
    ledger = Ledger.create(path, limit=1.0, delta=DELTA)
    script = """
    entry = Ledger.open(path).spend(Pure(epsilon=0.7), what="a fit", run="key")
    print(entry.hash, flush=True)
    sys.stdin.readline()  # the run, which does not live to its end
    """
    hashes = []
    for _ in range(2):
        process = python(script, path)
        assert process.stdout is not None
        hashes.append(process.stdout.readline().strip())
        process.kill()
        process.communicate()
    entry = ledger.spend(Pure(epsilon=0.7), what="a fit", run="key")
    ledger.finish("key")
    assert hashes == [entry.hash, entry.hash]
    assert [e.kind for e in ledger.entries()] == ["created", "spend", "finished"]


# Shared


def test_eight_processes_never_overspend(tmp_path: Path) -> None:
    path = tmp_path / "rows.ledger"
    script = """
    print("ready", flush=True)
    sys.stdin.readline()
    ledger = Ledger.open_or_create(path, limit=1.0, delta=1e-5)
    taken = 0
    try:
        while True:
            ledger.spend(Pure(epsilon=0.03), what="a count", who=sys.argv[2])
            taken += 1
    except BudgetExceeded:
        print(taken)
    """
    processes = [python(script, path, f"process {n}") for n in range(8)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    taken = sum(int(answer(process)) for process in processes)
    ledger = Ledger.open(path)
    assert taken == len(ledger.entries()) - 1
    assert ledger.spent() <= 1.0 * (1 + 1e-9)
    assert Ledger.verify(path) == []
    assert os.listdir(tmp_path) == [path.name]


# Full disks and read-only files


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can enter, which pytest's own is not."""
    path = Path(tempfile.mkdtemp(prefix="ledger "))
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    if not ROOT or not shutil.which("mount"):
        pytest.skip("needs the right to mount a small disk")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount a small disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


def fill(folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue


def test_full_disk_is_refused_before_spending(small_disk: Path) -> None:
    ledger = Ledger.create(small_disk / "rows.ledger", limit=1.0, delta=DELTA)
    first = ledger.spend(Pure(epsilon=0.1), what="a count")
    ledger.ready(Pure(epsilon=0.1))
    fill(small_disk)
    for act in (ledger.ready, ledger.spend):
        with pytest.raises(WrongInput, match="disk is full"):
            act(Pure(epsilon=0.1), what="a count")
    with pytest.raises(WrongInput, match="disk is full"):
        Ledger.create(small_disk / "other.ledger", limit=1.0, delta=DELTA)
    assert sorted(os.listdir(small_disk)) == ["filler", "rows.ledger"]
    assert Ledger.verify(ledger.path) == []
    (small_disk / "filler").unlink()
    assert ledger.entries()[-1] == first
    ledger.spend(Pure(epsilon=0.1), what="a count")
    assert Ledger.verify(ledger.path) == []


def test_file_size_limit_is_refused_before_spending(tmp_path: Path) -> None:
    """A limit on file sizes stands in for a full disk."""
    path = tmp_path / "rows.ledger"
    Ledger.create(path, limit=1.0, delta=DELTA).spend(Pure(epsilon=0.1), what="a count")
    script = """
    import resource
    ledger = Ledger.open(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    for act in (ledger.ready, ledger.spend):
        try:
            act(Pure(epsilon=0.1), what="a count")
        except WrongInput as no:
            print(no)
    """
    messages = answer(python(script, path)).splitlines()
    assert len(messages) == 2
    assert all("room left" in line or "disk is full" in line for line in messages)
    assert len(Ledger.open(path).entries()) == 2
    assert Ledger.verify(path) == []


@pytest.mark.parametrize("locked", ["file", "folder", "both"])
def test_read_only_ledger_is_refused_before_spending(folder: Path, locked: str) -> None:
    path = folder / "rows.ledger"
    Ledger.create(path, limit=1.0, delta=DELTA).spend(Pure(epsilon=0.1), what="a count")
    path.chmod(0o444 if locked != "folder" else 0o666)
    folder.chmod(0o555 if locked != "file" else 0o777)
    script = """
    if os.geteuid() == 0:
        os.setuid(65534)  # permissions do not bind the administrator
    ledger = Ledger.open(path)
    print(len(ledger.entries()), Ledger.verify(path))
    for act in (ledger.ready, ledger.spend):
        try:
            act(Pure(epsilon=0.1), what="a count", run="key")
        except WrongInput as no:
            print(no)
    """
    messages = answer(python(script, path)).splitlines()
    assert messages[0] == "2 []"
    assert len(messages) == 3
    assert all("make the file and its folder writable" in line for line in messages[1:])
    assert os.listdir(folder) == [path.name]
    assert len(Ledger.open(path).entries()) == 2


def test_ledger_in_a_read_only_folder_is_refused(folder: Path) -> None:
    folder.chmod(0o555)
    script = """
    if os.geteuid() == 0:
        os.setuid(65534)
    try:
        Ledger.create(path, limit=1.0, delta=1e-5)
    except WrongInput as no:
        print(no)
    """
    assert "make the file and its folder writable" in answer(python(script, folder / "rows.ledger"))
    assert os.listdir(folder) == []
