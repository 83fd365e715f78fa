"""`privaware reproduce`: items are listed with their state, and run beside the published numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from privaware import datasets
from privaware.cli import main, reproduce
from privaware.errors import PrivawareError
from research.__main__ import app
from tests.cli.people import CallResult, Run


@pytest.fixture(autouse=True)
def here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `started`, the research is called in this process, which is quicker."""
    if "started" not in request.fixturenames:
        monkeypatch.setattr(reproduce, "_research", lambda clone, words: main(words, app, "python -m research"))


@pytest.fixture
def started(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Calls the command line in an empty folder, and reads what its process writes too."""
    monkeypatch.chdir(tmp_path)

    def call(*words: object) -> CallResult:
        capfd.readouterr()
        code = main([str(word) for word in words])
        return CallResult(code, *capfd.readouterr())

    return call


def test_list_shows_measured_ready_and_open_items(run: Run) -> None:
    items = {item["id"]: item for item in json.loads(run("reproduce", "--list", "--json").out)["items"]}
    assert items["bao/table1/fcn/mnist"]["status"] == "measured"
    assert items["bao/table1/fcn/mnist"]["page"] == "docs/results/studies.md"
    assert items["bao/table1/fcn/purchase100"]["status"] == "open"
    assert items["dpmlbench/table11"]["status"] == "open"
    assert {item["paper"] for item in items.values()} >= {"bao", "tramer_boneh", "dpnas", "dpmlbench"}
    assert items["dpmlbench/table3/cifar10/gep"]["status"] == "partly"
    assert items["dpmlbench/table3/cifar10/gep"]["page"] == "docs/results/dpmlbench.md"
    cells = items["dpmlbench/table3/cifar10/gep"]["cells"]
    assert 0 < cells["measured"] < cells["full"]
    assert run("reproduce", "bao/table1", "--list").out.count("Table I:") == 8


def test_quick_run_gives_measured_beside_published(run: Run, tmp_path: Path) -> None:
    answer = run("reproduce", "bao/lemma", "--json", "--out", str(tmp_path))
    result = json.loads(answer.out)
    assert answer.code == 0
    assert [row["measured"] for row in result["rows"] if row["epsilon"] == "1"] == [3.731]
    assert all("published" in row for row in result["rows"])
    assert (tmp_path / "cells.jsonl").exists()


def test_prices_of_a_search_are_recomputed(run: Run, tmp_path: Path) -> None:
    [row] = json.loads(run("reproduce", "bao/table8/prices", "--json", "--out", str(tmp_path)).out)["rows"]
    assert row["published"] == 3.51
    assert row["measured"] == pytest.approx(3.58, abs=0.01)


def test_private_training_of_a_benchmark_paper_runs_quickly(run: Run, tmp_path: Path) -> None:
    try:
        datasets.path("mnist")
    except PrivawareError:
        pytest.skip("needs the files of mnist")
    item = "dpmlbench/table3/mnist/dp-sgd"
    [row] = json.loads(run("reproduce", item, "--json", "--out", str(tmp_path)).out)["rows"]
    assert (row["network"], row["epsilon"], row["published"]) == ("simple_cnn", 1000.0, 3.04)
    assert 0 < row["measured"] < 95  # three steps


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["bao/lema"], "did you mean"),
        (["dpmlbench/table11"], "not in the text"),
        (["bao/lemma", "--scale", "huge"], "expected --scale quick or full, got 'huge'"),
        ([], "expected PAPER/ITEM, such as bao/lemma, got none"),
    ],
)
def test_wrong_call_is_one_sentence(run: Run, words: list[str], reason: str) -> None:
    answer = run("reproduce", *words)
    assert answer.code == 2
    assert reason in answer.err


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package as a wheel installs it: `research` is not beside it."""
    monkeypatch.setattr(reproduce, "PACKAGE", tmp_path / "site-packages" / "privaware")


@pytest.mark.usefixtures("installed")
def test_without_a_clone_one_sentence_says_so(run: Run) -> None:
    answer = run("reproduce", "--list", "--json")
    assert answer.code == 2
    assert "needs a clone of the repository" in json.loads(answer.out)["error"]
    assert answer.err.count("\n") == 1


@pytest.mark.usefixtures("installed")
def test_help_needs_no_clone(run: Run) -> None:
    answer = run("reproduce", "--help")
    assert answer.code == 0
    assert "--scale" in answer.out


def test_process_passes_its_json_and_code_through(started: Run, tmp_path: Path) -> None:
    answer = started("reproduce", "bao/lemma", "--json", "--out", "here")
    assert (answer.code, answer.json["item"]) == (0, "bao/lemma")
    assert (tmp_path / "here" / "cells.jsonl").exists()


def test_process_passes_its_error_through(started: Run, tmp_path: Path) -> None:
    (tmp_path / "research").mkdir()
    (tmp_path / "research" / "__main__.py").write_text("raise SystemExit(9)")  # a folder of the user's is not run
    answer = started("reproduce", "bao/lema", "--json")
    assert answer.code == 2
    assert "did you mean" in answer.json["error"]
    assert answer.err == f"privaware: {answer.json['error']}\n"
