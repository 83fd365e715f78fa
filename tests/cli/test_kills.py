"""`fit` under violence: killed at any moment, eight at once, no room on the disk, no right to write."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import stat
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from privaware.ledger import Ledger
from privaware.workflow.verify import verify
from tests.cli.forks import Forks
from tests.cli.people import TOML, watched, write_people


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as processes:
        yield processes


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can enter, which pytest's own is not."""
    path = Path(tempfile.mkdtemp(prefix="fit "))
    path.chmod(0o777)
    write_people(path / "people.csv", rows=300)
    (path / "people.toml").write_text(TOML)
    yield path
    path.chmod(0o777)
    shutil.rmtree(path)


def command(data: str = "people.csv", *, learner: str = "majority", out: str = "m", **more: Any) -> list[str]:
    extra = [str(word) for name, value in more.items() for word in (f"--{name}", value)]
    schema = [] if data == "wisconsin" else ["--schema", "people.toml"]
    return ["fit", data, *schema, "--learner", learner, "--out", out, "--json", *extra]


def charges(path: Path) -> list[Any]:
    return [entry for entry in Ledger.open(path).entries() if entry.kind == "spend"]


# Killed


def killed_then_resumed(forks: Forks, folder: Path, words: list[str], name: str, kill: float) -> tuple[str, float]:
    """Kills a run, checks what it left, runs it again; says how far it had come and how long the second took."""
    run = {"words": words, "cwd": str(folder)}
    dead = forks.run([run | {"kill": kill}])[0]
    assert dead["code"] in (-signal.SIGKILL, 0), dead["err"]
    path, model = folder / name, folder / "m"
    begun = path.exists()
    charged = len(charges(path)) if begun else 0
    published = (model / "model.json").exists()
    assert charged <= 1
    assert charged or not (model / "model.safetensors").exists()  # nothing is made before the charge
    if published:
        assert verify(model, ledger=path).valid
    again = forks.run([run])[0]
    assert again["code"] == 0, again["err"]
    verdict = verify(model, ledger=path)
    assert verdict.valid, verdict.problems
    ledger = Ledger.open(path)
    assert len(charges(path)) == 1
    assert ledger.spent() >= verdict.epsilon["pld"] * (1 - 1e-9)
    assert [entry.kind for entry in ledger.entries()] == ["created", "spend", "finished"]
    left = {item.name for item in model.iterdir()} - {"run.ledger"}
    assert left == {"model.json", "model.safetensors", "report.html"}
    stage = (
        "too late"
        if dead["code"] == 0
        else "published"
        if published
        else "closed"
        if "published now" in again["err"]
        else "charged"
        if charged
        else "a ledger"
        if begun
        else "nothing"
    )
    return stage, again["seconds"]


def many_kills(forks: Forks, folder: Path, kills: int, rng: random.Random) -> Counter[str]:
    """Three commands in turn: a file with its ledger beside it, a longer run, and built-in data.

    The moment is drawn from the whole length of a run, which follows the load of the machine; a kill
    that comes too late is checked like the others but not counted.
    """
    commands = [
        (command(), "people.csv.ledger"),
        (command(learner="linear", ledger="own.ledger"), "own.ledger"),
        (command("wisconsin"), "m/run.ledger"),
    ]
    stages: Counter[str] = Counter()
    length = dict.fromkeys((ledger for _, ledger in commands), 1.0)
    for at in itertools.count():
        words, ledger = commands[at % len(commands)]
        here = folder / f"{at}"
        here.mkdir()
        for name in ("people.csv", "people.toml"):
            shutil.copy(folder / name, here)
        kill = rng.uniform(0, length[ledger])
        stage, seconds = killed_then_resumed(forks, here, words, ledger, kill)
        shutil.rmtree(here)
        if stage in ("nothing", "a ledger", "charged"):  # then the second run was complete
            length[ledger] = (length[ledger] + seconds) / 2
        elif stage == "too late":
            length[ledger] *= 0.9
        stages[stage] += 1
        if sum(stages.values()) - stages["too late"] == kills:
            return stages
    raise AssertionError


def test_p33_a_killed_fit_resumes_with_one_charge(forks: Forks, folder: Path) -> None:
    stages = many_kills(forks, folder, kills=6, rng=random.Random(33))
    assert len(stages) > 1


@pytest.mark.slow
def test_p33_two_hundred_killed_fits_resume_with_one_charge(forks: Forks, folder: Path) -> None:
    stages = many_kills(forks, folder, kills=200, rng=random.Random(34))
    print("\nhow far the killed runs had come:", dict(stages))
    assert stages["charged"] >= 20


@pytest.mark.parametrize(
    ("number", "code", "how"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated (SIGTERM)")],
    ids=["interrupt", "terminate"],
)
def test_an_interrupt_has_its_exit_code_and_resumes(
    forks: Forks, folder: Path, number: int, code: int, how: str
) -> None:
    run = {"words": command(learner="linear", set="steps=30000"), "cwd": str(folder)}
    stop = {"kill": 0, "after": "Charged to the ledger", "signal": number}
    dead = forks.run([run | stop])[0]
    assert dead["code"] == code, dead
    assert dead["err"].splitlines()[-1].startswith(f"privaware: {how}; the charge stays in the ledger, and the same")
    assert "Traceback" not in dead["err"]
    assert len(charges(folder / "people.csv.ledger")) == 1
    assert not (folder / "m" / "model.json").exists()


# Together


def test_eight_fits_at_one_ledger_never_overspend(forks: Forks, folder: Path) -> None:
    Ledger.create(folder / "book.ledger", limit=3.0, delta=1e-5)
    runs = [{"words": command(out=f"m{at}", ledger="book.ledger"), "cwd": str(folder)} for at in range(8)]
    ends = forks.run(runs)
    assert Counter(end["code"] for end in ends) == {0: 3, 3: 5}
    ledger = Ledger.open(folder / "book.ledger")
    assert len(charges(folder / "book.ledger")) == 3
    assert ledger.spent() <= 3.0
    assert Ledger.verify(folder / "book.ledger") == []
    for at, end in enumerate(ends):
        released = (folder / f"m{at}").exists()
        assert released == (end["code"] == 0)
        assert not released or verify(folder / f"m{at}", ledger=folder / "book.ledger").valid


def test_p13_eight_equal_commands_release_one_model_charged_once(forks: Forks, folder: Path) -> None:
    ends = forks.run([{"words": command(limit=9), "cwd": str(folder)} for _ in range(8)])
    assert Counter(end["code"] for end in ends) == {0: 1, 2: 7}, [end["err"] for end in ends]
    assert len(charges(folder / "people.csv.ledger")) == 1
    assert verify(folder / "m", ledger=folder / "people.csv.ledger").valid


# No room, no right


def stopped_before_a_row(forks: Forks, folder: Path, words: list[str], **run: Any) -> str:
    """The sentence of a run that must end before its data are opened."""
    with watched(folder / "pipe.csv") as reads:
        end = forks.run([{"words": words, "cwd": str(folder), **run}])[0]
    assert reads == []
    assert end["code"] == 2, end
    assert len(end["err"].splitlines()) == 1
    assert not (folder / "m" / "model.json").exists()
    return str(end["err"])


@pytest.mark.parametrize("locked", ["file", "folder"])
def test_a_read_only_ledger_stops_before_a_row_is_read(forks: Forks, folder: Path, locked: str) -> None:
    if not _root():
        pytest.skip("needs the right to become another user")
    place = folder / "books"
    place.mkdir()
    ledger = Ledger.create(place / "book.ledger", limit=3.0, delta=1e-5).path
    before = ledger.read_bytes()
    ledger.chmod(0o444 if locked == "file" else 0o666)
    place.chmod(0o555 if locked == "folder" else 0o777)
    words = command("pipe.csv", ledger="books/book.ledger")
    sentence = stopped_before_a_row(forks, folder, words, uid=65534)
    assert "make the file and its folder writable" in sentence
    assert ledger.read_bytes() == before
    assert stat.S_IMODE(ledger.stat().st_mode) == (0o444 if locked == "file" else 0o666)


@pytest.mark.parametrize("there", ["ledger", "no ledger"])
def test_a_full_disk_stops_before_a_row_is_read(forks: Forks, folder: Path, there: str) -> None:
    small = folder / "small"
    small.mkdir()
    mounted = (
        _root()
        and shutil.which("mount")
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", small], capture_output=True
        ).returncode
    )
    if not mounted:
        pytest.skip("needs the right to mount a small disk")
    try:
        if there == "ledger":
            Ledger.create(small / "book.ledger", limit=3.0, delta=1e-5)
        with (small / "filler").open("wb", buffering=0) as filler:
            for size in (4096, 1):
                try:
                    while True:
                        filler.write(b"x" * size)
                except OSError:
                    continue
        sentence = stopped_before_a_row(forks, folder, command("pipe.csv", ledger="small/book.ledger"))
        assert "disk is full" in sentence
        if there == "ledger":
            assert len(Ledger.open(small / "book.ledger").entries()) == 1
        else:
            assert [item.name for item in small.iterdir()] == ["filler"]
    finally:
        subprocess.run(["umount", small], check=True)


def test_full_disk_for_the_model_keeps_the_charge_and_resumes(forks: Forks, folder: Path) -> None:
    small = folder / "small"
    small.mkdir()
    mounted = (
        _root()
        and shutil.which("mount")
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small], capture_output=True
        ).returncode
    )
    if not mounted:
        pytest.skip("needs the right to mount a small disk")
    run = {"words": command(out="small/m"), "cwd": str(folder)}
    try:
        end = forks.run([run])[0]
        assert end["code"] == 2
        assert "No space left" in end["err"].splitlines()[-1]
        assert "Traceback" not in end["err"]
        subprocess.run(["mount", "-o", "remount,size=1m", small], check=True)
        assert forks.run([run])[0]["code"] == 0
        assert len(charges(folder / "people.csv.ledger")) == 1
        assert verify(small / "m", ledger=folder / "people.csv.ledger").valid
    finally:
        subprocess.run(["umount", small], check=True)


def _root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0
