"""The list of DPNAS jobs: a job that fails stops no other, and none begins that would pass the limit."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from benchmarks import dpnas


def given(store: Path, **more: Any) -> argparse.Namespace:
    first = {"only": None, "data": ["mnist"], "device": "cpu", "limit": float("inf")}
    return argparse.Namespace(store=store, **{**first, **more})


def listed(monkeypatch: pytest.MonkeyPatch, done: Any, *jobs: dpnas.Job) -> None:
    monkeypatch.setattr(dpnas, "jobs", lambda data: iter(jobs))
    monkeypatch.setattr(dpnas, "done", done)


def test_a_job_that_fails_is_told_and_the_others_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def done(job: dpnas.Job, store: Any, _: Any) -> dict[str, Any]:
        if job.name == "one":
            raise ValueError("out of memory")
        return {"seen": sorted(store)}

    listed(monkeypatch, done, dpnas.Job("one"), dpnas.Job("two"), dpnas.Job("three", ("one",)))
    with pytest.raises(SystemExit, match="failed: one"):
        dpnas.run(given(tmp_path / "store.jsonl"))
    assert list(dpnas.read(tmp_path / "store.jsonl")) == ["two"]
    both = capsys.readouterr()
    assert "out of memory" in both.err
    assert "three is left: it needs one" in both.out


def test_a_job_too_long_for_the_limit_gives_way_to_a_shorter_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = {"long": 100.0, "short": 1.0}
    monkeypatch.setattr(dpnas, "expected", lambda job, _: seconds[job.name])
    listed(monkeypatch, lambda *_: {}, dpnas.Job("long"), dpnas.Job("short"))
    dpnas.run(given(tmp_path / "store.jsonl", limit=50.0))
    assert list(dpnas.read(tmp_path / "store.jsonl")) == ["short"]
    dpnas.run(given(tmp_path / "store.jsonl"))
    assert list(dpnas.read(tmp_path / "store.jsonl")) == ["short", "long"]
