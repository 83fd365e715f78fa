"""Nothing that a search leaves behind depends on its secret number of trials."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware import Schema, search, select
from privaware.card import ModelCard
from privaware.ledger import Ledger, _chain
from privaware.model import Model
from privaware.schema import Column
from privaware.selectors import pafs
from privaware.strategies import _trials
from privaware.strategies._journal import SearchJournal
from privaware.strategies._strategy import TrialCount

COUNTS = (1, 9)
SCHEMA = Schema(
    columns=tuple(Column(name=name, low=0.0, high=1.0) for name in "ab"), target="y", classes=("no", "yes"), rows=100
)
SPACE = {"learner": "linear", "choices": {"lr": [1.0]}, "build": {"lr": "$lr", "steps": 2}}


@dataclass
class Clock:
    """The time of the ledger, which runs on by an hour for each trial."""

    now: datetime = datetime(2030, 1, 1, tzinfo=UTC)

    def text(self) -> str:
        return self.now.isoformat(timespec="milliseconds")


@dataclass
class Bench:
    """Runs of one command with chosen numbers of trials, each of which takes an hour and gives the same model."""

    folder: Path
    clock: Clock

    def left_by(self, verb: Callable[..., Any], **settings: Any) -> dict[str, Any]:
        """What one run leaves: names, bytes, sizes and times of all files and of the folder, and the ledger."""
        out, ledger = self.folder / "out", self.folder / "people.ledger"
        for path in (out, self.folder / "state"):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copy2(self.folder / "empty.ledger", ledger)
        for known in Path(os.environ["PRIVAWARE_LEDGERS"]).glob("*.entries"):
            known.unlink()  # otherwise the ledger that begins again would be refused as an older copy
        self.clock.now = Clock.now
        frame = pd.DataFrame({"a": np.linspace(0, 1, 100), "b": np.linspace(1, 0, 100), "y": ["no", "yes"] * 50})
        verb(frame, schema=SCHEMA, out=out, ledger=ledger, **settings)
        left = [out, *sorted(out.rglob("*")), ledger]
        return {
            str(path.relative_to(self.folder)): (
                b"" if path.is_dir() else path.read_bytes(),
                path.stat().st_mtime_ns,
                path.stat().st_mode,
            )
            for path in left
        }


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    clock = Clock()
    model = Model(
        schema=SCHEMA,
        features=(),
        architecture={"name": "linear", "inputs": 2, "outputs": 2},
        tensors={"output.weight": np.zeros((2, 2), dtype=np.float64), "output.bias": np.zeros(2, dtype=np.float64)},
    )

    def trained(shared: Any, job: Any) -> list[Model]:
        clock.now += timedelta(hours=len(job.positions))
        return [model for _ in job.positions]

    def best(self: Any, search: Any, width: int, count: int) -> np.ndarray:
        clock.now += timedelta(hours=count)
        return np.array([True, False])

    monkeypatch.setattr(_chain, "_now", clock.text)
    monkeypatch.setattr(_trials, "_train", trained)
    monkeypatch.setattr(pafs._Trials, "best", best)
    monkeypatch.setattr("privaware.report._charts.render", lambda chart: "")  # slow, and tested elsewhere
    Ledger.create(tmp_path / "empty.ledger", limit=100.0)
    return Bench(tmp_path, clock)


def searched(bench: Bench, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> list[dict[str, Any]]:
    """What searches leave that differ in their secret number of trials only."""
    runs = []
    for count in COUNTS:
        monkeypatch.setattr(TrialCount, "sample", lambda self, rng, count=count: count)
        runs.append(bench.left_by(search, space=SPACE, model_epsilon=1.0, **settings))
    return runs


@pytest.mark.parametrize("strategy", ["rs", "mgrs"])
def test_p40_search_files_do_not_show_the_number_of_trials(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    few, many = searched(bench, monkeypatch, strategy=strategy, trials=3)
    files = ("model.json", "model.safetensors", "report.html")
    assert set(few) == {"out", *(f"out/{name}" for name in files), "people.ledger"}
    assert [name for name in few if few[name] != many.get(name)] == []
    assert {time for name, (_, time, _) in few.items() if name != "people.ledger"} == {Clock.now.timestamp() * 1e9}


def test_p40_selection_files_do_not_show_the_number_of_trials(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for count in COUNTS:
        monkeypatch.setattr(pafs, "_secret_count", lambda models, rng, count=count: count)
        runs.append(bench.left_by(select, method="pafs", epsilon=1.0, settings={"adaptive": False, "models": 3}))
    assert set(runs[0]) == {"out", "out/selection.json", "people.ledger"}
    assert runs[0] == runs[1]


def dated_closing(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    append = _chain._insert
    monkeypatch.setattr(_chain, "_insert", lambda db, entry: append(db, replace(entry, time=clock.text())))


def file_times_as_they_are(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    def written_now(path: Any, times: Any = None, **_: Any) -> None:
        now = clock.now.timestamp()
        utime(path, (now, now))

    utime = os.utime
    monkeypatch.setattr(os, "utime", written_now)


def duration_in_the_card(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    content = ModelCard.content
    monkeypatch.setattr(ModelCard, "content", lambda self: content(replace(self, version=clock.text())))


@pytest.mark.parametrize("leak", [dated_closing, file_times_as_they_are, duration_in_the_card])
def test_p40_planted_duration_is_noticed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, leak: Callable[[pytest.MonkeyPatch, Clock], None]
) -> None:
    leak(monkeypatch, bench.clock)
    few, many = searched(bench, monkeypatch, strategy="rs", trials=3)
    assert few != many


def test_journal_is_gone_when_the_search_has_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    journals = []
    keep = SearchJournal.keep

    def recorded(self: SearchJournal, name: str, results: Any) -> None:
        keep(self, name, results)
        journals.append(self.folder)
        assert self.folder.stat().st_mode & 0o077 == 0

    monkeypatch.setattr(SearchJournal, "keep", recorded)
    searched(bench, monkeypatch, strategy="rs", trials=3)
    assert journals
    assert not any(folder.exists() for folder in journals)


@pytest.mark.parametrize("strategy", ["rs", "grid"])
def test_search_seconds_are_internal_where_trials_are_secret(bench: Bench, strategy: str) -> None:
    results: list[Any] = []
    trials = 3 if strategy == "rs" else None

    def kept(*arguments: Any, **named: Any) -> None:
        results.append(search(*arguments, space=SPACE, strategy=strategy, model_epsilon=1.0, trials=trials, **named))

    bench.left_by(kept)
    fields = results[0].json()
    assert fields["internal"]["seconds"] > 0
    assert fields["seconds"] == (None if strategy == "rs" else fields["internal"]["seconds"])


@pytest.mark.parametrize("adaptive", [False, True])
def test_selection_seconds_are_internal_where_trials_are_secret(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, adaptive: bool
) -> None:
    results: list[Any] = []

    def kept(*arguments: Any, **named: Any) -> None:
        settings = {"adaptive": adaptive, "models": 2, "population": 4, "generations": 1}
        results.append(select(*arguments, method="pafs", epsilon=1.0, settings=settings, **named))

    bench.left_by(kept)
    fields = results[0].json()
    assert fields["internal"]["seconds"] > 0
    assert fields["seconds"] == (fields["internal"]["seconds"] if adaptive else None)
