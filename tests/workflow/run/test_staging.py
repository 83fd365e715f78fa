"""One charge, one complete result: killed at any moment, without room, without the right to write."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from privaware import fit, search
from privaware.ledger import Ledger
from privaware.workflow.run.staging import Staged
from privaware.workflow.verify import verify
from tests.cli.forks import Forks
from tests.cli.people import TOML, write_people

FIT = ["fit", "people.csv", "--schema", "people.toml", "--learner", "majority", "--out", "m", "--json"]
LINEAR = [
    "fit",
    "people.csv",
    "--schema",
    "people.toml",
    "--learner",
    "linear",
    "--out",
    "m",
    "--ledger",
    "m/own.ledger",
]
BUILTIN = ["fit", "wisconsin", "--learner", "majority", "--out", "m"]
SELECT = ["select", "people.csv", "--schema", "people.toml", "--out", "m"]
COMMANDS = {"people.csv.ledger": FIT, "m/own.ledger": LINEAR, "m/run.ledger": BUILTIN, "./people.csv.ledger": SELECT}
"""Commands with the ledger that each charges."""
MOST = 76
"""More moments than a run has."""


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as processes:
        yield processes


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can enter, which pytest's own is not."""
    path = Path(tempfile.mkdtemp(prefix="staged "))
    path.chmod(0o777)
    prepared(path)
    yield path
    shutil.rmtree(path)


def prepared(folder: Path) -> None:
    write_people(folder / "people.csv", rows=300)
    (folder / "people.toml").write_text(TOML)


def attempt(forks: Forks, folder: Path, words: list[str], at: int | None = None, how: str = "kill") -> dict[str, Any]:
    """Runs a command that fails at a moment, among users who may read whatever it leaves readable."""
    moments = {"notes": str(folder / "notes"), "at": at, "how": how}
    return forks.run([{"words": words, "cwd": str(folder), "umask": 0, "moments": moments}])[0]


def expect_one_result(folder: Path, ledger: str, words: list[str]) -> None:
    """What was seen at all moments of all attempts, and what stands in the folder now."""
    notes = [json.loads(line) for line in (folder / "notes").read_text().splitlines()]
    assert [note["readable"] for note in notes if "readable" in note] == []
    assert len({note["complete"] for note in notes if "complete" in note}) == 1
    assert [entry.kind for entry in Ledger.open(folder / ledger).entries()] == ["created", "spend", "finished"]
    verdict = verify(folder / "m", ledger=folder / ledger)
    assert (verdict.valid, verdict.bound, verdict.unchecked) == (True, True, []), verdict
    for path in (folder / "m").iterdir():
        assert path.suffix == ".ledger" or stat.S_IMODE(path.stat().st_mode) == 0o666
    assert words[0] != "fit" or (folder / "m" / "report.html").is_file()


def stage(folder: Path) -> str:
    """How far an attempt has come."""
    out = folder / "m"
    if (out / "model.json").exists() or (out / "selection.json").exists():
        return "published"
    if Staged.find(out) is None:
        return "nothing complete"
    return "publishing" if (out / "model.safetensors").exists() or (out / "report.html").exists() else "complete"


@pytest.mark.parametrize(("how", "first", "step"), [("kill", 2, 3), ("full disk", 4, 6), ("read-only", 3, 6)])
def test_p54_one_charge_writes_one_set_of_tensors(forks: Forks, folder: Path, how: str, first: int, step: int) -> None:
    """One command fails at one moment after the other; a new set at each would be a release that nobody paid for."""
    code = 2 if how != "kill" else -signal.SIGKILL
    stages = Counter[str]()
    for at in range(first, MOST, step):
        end = attempt(forks, folder, FIT, at, how)
        if end["code"] == 0:
            break
        assert end["code"] == code, end["err"]
        stages[stage(folder)] += 1
    assert end["code"] == 0
    assert attempt(forks, folder, FIT)["code"] == 0
    assert stages["complete"] > 0, stages
    expect_one_result(folder, "people.csv.ledger", FIT)


def many_kills(forks: Forks, folder: Path, kills: int, rng: random.Random) -> Counter[str]:
    """Each command in turn, killed up to three times at random moments and then left to end."""
    stages = Counter[str]()
    while stages.total() < kills:
        ledger, words = rng.choice([*COMMANDS.items()])
        here = folder / f"{stages.total()}"
        here.mkdir()
        prepared(here)
        for _ in range(rng.randint(1, 3)):
            if attempt(forks, here, words, rng.randint(4, MOST))["code"]:
                stages[stage(here)] += 1
        end = attempt(forks, here, words)
        assert end["code"] == 0, end["err"]
        expect_one_result(here, ledger, words)
        shutil.rmtree(here)
    return stages


@pytest.mark.slow
def test_p54_two_hundred_kills_leave_one_result_a_charge(forks: Forks, folder: Path) -> None:
    stages = many_kills(forks, folder, kills=200, rng=random.Random(54))
    print("\nwhat the killed runs had left:", dict(stages))
    assert min(stages["nothing complete"], stages["complete"], stages["publishing"]) >= 5


def test_read_only_folder_is_refused_before_the_charge(forks: Forks, folder: Path) -> None:
    (folder / "m").mkdir()
    end = attempt(forks, folder, FIT, 1, "read-only")
    assert (end["code"], "choose another --out" in end["err"]) == (2, True), end["err"]
    assert not (folder / "people.csv.ledger").exists()


def test_part_of_a_set_is_deleted_and_drawn_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    call: dict[str, Any] = {"schema": "people.toml", "epsilon": 1.0, "learner": "majority", "out": "m"}
    add = Staged.add

    def half(staged: Staged, name: str, content: bytes) -> None:
        whole = name != "model.safetensors"
        add(staged, name, content if whole else content[: len(content) // 2])
        if not whole:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Staged, "add", half)
        with pytest.raises(KeyboardInterrupt):
            fit("people.csv", **call)
    assert Path("m/.staged/model.safetensors").exists()
    fit("people.csv", **call)
    assert sorted(os.listdir("m")) == ["model.json", "model.safetensors", "report.html"]


NETWORK = {"architecture": {"name": "fcn", "hidden": [4], "dropout": 0.0}, "steps": 5}
SPACE = {"learner": "dpsgd", "choices": {"lr": [0.5, 2.0]}, "build": {**NETWORK, "lr": "$lr"}}


@pytest.mark.parametrize("verb", ["fit", "search"])
def test_p54_run_with_a_journal_ends_in_the_same_set(folder: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """Killed behind the last state in the journal: what the journal holds is no second model."""
    monkeypatch.chdir(folder)
    common: dict[str, Any] = {"schema": "people.toml", "epsilon": 2.0, "out": "m"}
    drawn: list[bytes] = []
    write = Staged.write

    def stopped_once(folder: Path, contents: dict[str, bytes], **facts: Any) -> Staged:
        drawn.append(contents["model.safetensors"])
        if len(drawn) == 1:
            raise KeyboardInterrupt
        return write(folder, contents, **facts)

    monkeypatch.setattr(Staged, "write", stopped_once)
    for attempt in range(2):
        with pytest.raises(KeyboardInterrupt) if attempt == 0 else nullcontext():
            if verb == "fit":
                fit("people.csv", learner="dpsgd", settings=NETWORK, **common)
            else:
                search("people.csv", space=SPACE, strategy="rs", trials=2, **common)
    assert drawn[0] == drawn[1]
    assert sorted(os.listdir("m")) == ["model.json", "model.safetensors", "report.html"]


def test_saved_model_is_staged_and_opened_at_the_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = fit("wisconsin", epsilon=1.0, learner="majority")
    modes: dict[str, int] = {}
    publish = Staged.publish

    def seen(staged: Staged, charged: str) -> None:
        modes.update({path.name: stat.S_IMODE(path.stat().st_mode) for path in (staged.place, *staged.place.iterdir())})
        publish(staged, charged)

    monkeypatch.setattr(Staged, "publish", seen)
    released.save(folder / "m")
    assert modes.pop(".staged") == 0o700
    assert set(modes.values()) == {0o600}
    assert sorted(os.listdir(folder / "m")) == ["model.json", "model.safetensors", "report.html"]


def test_repeated_command_ends_an_interrupted_publication(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed when the model has its name and others cannot read it yet."""
    monkeypatch.chdir(folder)
    call: dict[str, Any] = {"schema": "people.toml", "epsilon": 1.0, "learner": "majority", "out": "m"}

    def stopped(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Staged, "_mode_of_new_files", stopped)
        with pytest.raises(KeyboardInterrupt):
            fit("people.csv", **call)
    assert stat.S_IMODE(Path("m/model.json").stat().st_mode) == 0o600
    fit("people.csv", **call)
    assert sorted(os.listdir("m")) == ["model.json", "model.safetensors", "report.html"]
    assert Path("m/model.safetensors").stat().st_mode == Path("people.csv").stat().st_mode
