"""Every verb: help with an example, one JSON object, and exit codes that mean the same everywhere."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.people import Run

VERBS = (
    "fit",
    "predict",
    "verify",
    "report",
    "schema",
    "ledger",
    "account dpsgd",
    "list",
    "data list",
    "data fetch",
    "data path",
    "select",
    "crossover",
)
MAIN = [sys.executable, "-c", "from privaware.cli import main; main()"]


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example_and_the_shared_options(run: Run, verb: str) -> None:
    done = run(*verb.split(), "--help")
    assert done.code == 0
    assert f"Example: privaware {verb}" in " ".join(done.out.split())
    assert "--json" in done.out
    assert "--seed" in done.out


def test_the_first_help_names_a_command_to_start_with(run: Run) -> None:
    done = run("--help")
    assert done.code == 0
    assert "privaware fit wisconsin --epsilon 1" in done.out
    assert all(verb.split()[0] in done.out for verb in VERBS)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from privaware.cli import main; main(['fit', '--help']);"
        "print([m for m in ('torch', 'opendp', 'dp_accounting', 'pandas', 'scipy', 'altair') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_console_exits_with_the_code_and_one_sentence(tmp_path: Path) -> None:
    done = subprocess.run([*MAIN, "verify", "nowhere", "--json"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert json.loads(done.stdout) == {"error": done.stderr.removeprefix("privaware: ").strip()}


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["fit"],
        ["fit", "wisconsin", "--nope"],
        ["fit", "wisconsin", "--epsilon", "much"],
        ["fit", "wisconsin", "--epsilon", "-1"],
        ["fit", "wisconsin", "--epsilon", "nan"],
        ["fit", "wisconsin", "--epsilon", "inf"],
        ["fit", "wisconsin", "--epsilon", "0"],
        ["fit", "wisconsin", "--delta", "0"],
        ["fit", "wisconsin", "--delta", "0.5"],
        ["fit", "wisconsin", "--delta", "1"],
        ["fit", "wisconsin", "--seed", "-1"],
        ["fit", "wisconsin", "--seed", "x"],
        ["fit", "wisconsin", "--limit", "nan"],
        ["fit", "wisconsin", "--limit", "-1"],
        ["fit", "wisconsin", "--learner", "magic"],
        ["fit", "wisconsin", "--learner", "mean"],
        ["fit", "wisconsin", "--device", "abacus"],
        ["fit", "wisconsin", "--device", "meta"],
        ["fit", "wisconsin", "--target", "age"],
        ["fit", "wisconsin", "--task", "regression"],
        ["fit", "wisconsin", "--task", "divination"],
        ["fit", "wisconsin", "--unit", "person"],
        ["fit", "wisconsin", "--set", "steps"],
        ["fit", "wisconsin", "--set", "steps=many"],
        ["fit", "wisconsin", "--set", "steps=1.5"],
        ["fit", "wisconsin", "--set", "lr=NaN"],
        ["fit", "wisconsin", "--set", "bins=-3"],
        ["fit", "wisconsin", "--set", "wings=2"],
        ["fit", "wisconsin", "--out", "x" * 300],
        ["fit", "wisconsin", "--out", "a\0b"],
        ["fit", "a\0b.csv"],
        ["fit", ""],
        ["list", "unicorns"],
        ["data", "path", "digits"],
        ["data", "path", "unicorns"],
        ["data", "fetch", "unicorns"],
        ["ledger", "none"],
        ["ledger", "."],
        ["report", "."],
        ["predict", ".", "none.csv"],
        ["verify", "x" * 300],
        ["predict", ".", "wisconsin", "--out", "p.xlsx"],
        ["schema", "none.csv"],
        ["account", "dpsgd", "--rows", "9", "--batch", "1", "--epochs", "1"],
        ["account", "dpsgd", "--rows", "9", "--batch", "1", "--epochs", "1", "--noise", "1", "--epsilon", "1"],
        ["account", "dpsgd", "--rows", "0", "--batch", "1", "--epochs", "1", "--noise", "1"],
        ["account", "dpsgd", "--rows", "9", "--batch", "10", "--epochs", "1", "--noise", "1"],
        ["account", "dpsgd", "--rows", "9", "--batch", "1", "--epochs", "nan", "--noise", "1"],
        ["account", "dpsgd", "--rows", "9", "--batch", "1", "--epochs", "1", "--noise", "0"],
        ["account", "dpsgd", "--rows", "9", "--batch", "1", "--epochs", "1", "--epsilon", "0"],
    ],
    ids=lambda words: " ".join(words)[:60].replace("\0", "NUL"),
)
def test_a_wrong_call_is_one_sentence_and_touches_nothing(run: Run, words: list[str], tmp_path: Path) -> None:
    done = run(*words, "--json")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert done.json == {"error": done.err.removeprefix("privaware: ").strip()}
    assert os.listdir(tmp_path) == []


def test_account_prices_a_run_and_calibrates_it(run: Run) -> None:
    sizes = ("--rows", 60000, "--batch", 256, "--epochs", 1.5, "--delta", "1e-5")
    priced = run("account", "dpsgd", *sizes, "--noise", 1.1, "--json").json
    assert priced["rate"] == 256 / 60000
    assert priced["steps"] == 352  # 1.5 x 60000 / 256 = 351.6, rounded up
    assert priced["epsilon"]["pld"] < priced["epsilon"]["rdp"] < priced["epsilon"]["rdp_classic"]
    aimed = run("account", "dpsgd", *sizes, "--epsilon", priced["epsilon"]["pld"], "--json").json
    assert aimed["noise"] == pytest.approx(1.1, rel=1e-3)
    assert aimed["epsilon"]["pld"] <= priced["epsilon"]["pld"]


def test_list_has_every_kind_with_names(run: Run) -> None:
    made = run("list", "--json").json
    kinds = {"learners", "selectors", "strategies", "attacks", "models", "datasets", "spaces"}
    assert kinds <= set(made)
    assert {"linear", "majority", "mean", "alibi", "pate"} <= {row["name"] for row in made["learners"]}
    assert list(run("list", "datasets", "--json").json) == ["datasets"]
    assert "wisconsin" in run("list", "datasets").out


def test_data_says_what_is_here(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PRIVAWARE_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    rows = {row["name"]: row for row in run("data", "list", "--json").json["datasets"]}
    assert rows["digits"]["ready"]
    assert not rows["mnist"]["ready"]
    assert run("data", "fetch", "digits", "--json").json == {"name": "digits", "path": None}
    assert run("data", "path", "mnist").code == 2


def test_a_draft_is_written_once_and_says_it_is_unreviewed(run: Run, people: Path) -> None:
    made = run("schema", people, "--target", "y", "--out", "draft.toml", "--json").json
    assert made["reviewed"] is False
    assert [column["name"] for column in made["columns"]] == ["age", "town"]
    before = Path("draft.toml").read_bytes()
    assert run("schema", people, "--target", "y", "--out", "draft.toml").code == 2
    assert Path("draft.toml").read_bytes() == before
    assert run("fit", people, "--schema", "draft.toml", "--dry-run").code == 0


@pytest.mark.parametrize("answer", ["y", "n"])
def test_on_a_terminal_the_draft_is_shown_and_confirmed(people: Path, answer: str) -> None:
    ours, theirs = pty.openpty()
    words = ["fit", str(people), "--target", "y", "--dry-run", "--json"]
    with subprocess.Popen([*MAIN, *words], stdin=theirs, stderr=theirs, stdout=subprocess.PIPE) as call:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        shown = b""
        while call.poll() is None or shown == b"":
            try:
                shown += os.read(ours, 4096)
            except OSError:  # the other side has hung up
                break
        assert call.stdout is not None
        made = json.loads(call.stdout.read())
    os.close(ours)
    assert b'[columns."age"]' in shown
    assert b"Accept it?" in shown
    assert call.returncode == (0 if answer == "y" else 2)
    assert ("learner" in made) if answer == "y" else ("--accept-schema" in made["error"])
