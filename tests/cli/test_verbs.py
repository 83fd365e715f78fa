"""Every verb: help with an example, one JSON object, and exit codes that mean the same everywhere."""

from __future__ import annotations

import json
import os
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
    "card",
    "ui",
    "schema",
    "ledger",
    "account dpsgd",
    "list",
    "data list",
    "data fetch",
    "data path",
    "select",
    "crossover",
    "audit",
    "reproduce",
    "bench run",
    "bench table",
    "bench report",
)
INTERRUPTED = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, *_):
        if name == "numpy":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from privaware.__main__ import main
main()
"""
"""A program that gets Ctrl-C while the command line is imported."""
MAIN = [sys.executable, "-c", "from privaware.cli import main; main()"]


def test_interrupt_of_the_first_imports_is_one_sentence() -> None:
    child = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (child.returncode, child.stderr) == (130, "privaware: interrupted; this command charged nothing\n")


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example_and_the_shared_options(run: Run, verb: str) -> None:
    result = run(*verb.split(), "--help")
    assert result.code == 0
    assert f"Example: privaware {verb}" in " ".join(result.out.split())
    assert "--json" in result.out
    assert "--seed" in result.out


@pytest.mark.parametrize("verb", VERBS)
def test_help_says_where_a_seed_has_no_effect(run: Run, verb: str) -> None:
    words = " ".join(run(*verb.split(), "--help").out.replace("│", " ").split())
    draws = verb in ("fit", "select", "search", "crossover", "audit", "advise", "bench run")
    assert draws != ("Has no effect, because" in words)


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("advise", "Nothing is charged for it."),
        ("advise", "for `advise`, --pilot plus --epsilon; for `crossover`, a given --total."),
        ("select", "A setting of the selection method"),
        ("fit", "JSON, Parquet, Feather, Excel, ARFF, Stata, SAS, SPSS or .npz"),
    ],
)
def test_help_is_true_for_its_command(run: Run, verb: str, said: str) -> None:
    assert said in " ".join(run(verb, "--help").out.replace("│", " ").split())


def test_help_names_a_first_command(run: Run) -> None:
    result = run("--help")
    assert result.code == 0
    assert "privaware fit wisconsin --epsilon 1" in result.out
    assert all(verb.split()[0] in result.out for verb in VERBS)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from privaware.cli import main; main(['fit', '--help']);"
        "print([m for m in ('torch', 'opendp', 'dp_accounting', 'pandas', 'scipy', 'altair') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_the_console_exits_with_the_code_and_one_sentence(tmp_path: Path) -> None:
    result = subprocess.run([*MAIN, "verify", "nowhere", "--json"], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert json.loads(result.stdout) == {"error": result.stderr.removeprefix("privaware: ").strip()}


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
        ["predict", "nowhere", "wisconsin", "--device", "abacus"],
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
    result = run(*words, "--json")
    assert result.code == 2
    assert len(result.err.splitlines()) == 1
    assert result.json == {"error": result.err.removeprefix("privaware: ").strip()}
    assert os.listdir(tmp_path) == []


def test_package_runs_as_a_module() -> None:
    call = [sys.executable, "-m", "privaware", "list", "learners", "--json"]
    answer = subprocess.run(call, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["learners"]


def test_module_exits_with_the_code_of_the_command() -> None:
    answer = subprocess.run([sys.executable, "-m", "privaware", "fitt"], capture_output=True, text=True)
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr
