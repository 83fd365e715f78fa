"""How the terminal speaks: bars only where a person watches, help at every turn, and the nearest name."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from privaware import Schema
from privaware._version import __version__
from privaware.cli._options import complete_data
from privaware.cli._terminal import Terminal
from privaware.errors import warn_caller
from privaware.workflow.run.progress import to_stderr
from tests.cli.people import Run


class Screen(io.StringIO):
    """A stream that says that a person watches."""

    watched = True

    def isatty(self) -> bool:
        return self.watched


def watched_screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Standard error, from now on."""
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return screen


def test_bar_has_steps_rate_and_time_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    screen, watched_terminal = watched_screen(monkeypatch), Terminal()
    for step in range(1, 6):
        watched_terminal.progress("training", step, 5)
    watched_terminal("a sentence beside the bar")
    watched_terminal.close()
    err = screen.getvalue()
    assert capsys.readouterr().out == ""
    assert "training" in err
    assert "5/5" in err
    assert "/s" in err
    assert "0:00:00" in err
    assert "a sentence beside the bar" in err


def test_no_bar_without_a_terminal_or_for_json(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, watched_terminal = watched_screen(monkeypatch), Terminal()
    watched_terminal.quiet = True
    watched_terminal.progress("training", 1, 5)
    monkeypatch.setattr(Screen, "watched", False)
    plain = Terminal()
    plain.progress("training", 1, 5)
    plain("only this")
    assert screen.getvalue() == "only this\n"


def test_version_and_short_help(run: Run) -> None:
    assert run("--version").out == f"privaware {__version__}\n"
    bare = run()
    assert bare.code == 0
    assert "privaware fit DATA --target COLUMN --epsilon 1" in bare.out
    assert len(bare.out.splitlines()) < 12


@pytest.mark.parametrize(
    "words", [["-h"], ["fit", "-h"], ["ledger", "-h"], ["data", "list", "-h"], ["data"]], ids=" ".join
)
def test_help_is_one_letter_away(run: Run, words: list[str]) -> None:
    result = run(*words)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("Usage: privaware")
    assert len(result.out.splitlines()) > 5


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("fit wisconsin --epsilom 1", "did you mean --epsilon?"),
        ("account --json", "expected a command after `privaware account`, got --json; commands: dpsgd"),
        ("ledger book --set 2", "did you mean --set-limit?"),
        ("fit wisconsin --learner lineer", "did you mean linear?"),
        ("select wisconsin --method cfs_gredy", "did you mean cfs_greedy?"),
        ("search wisconsin --strategy racng", "did you mean racing?"),
        ("fit wisconsn", "did you mean wisconsin?"),
        ("fit peple.csv", "did you mean people.csv?"),
        ("fit people.csv --header --target twon", "did you mean 'town'?"),
        ("predict modle people.csv", "did you mean model?"),
        ("fit nope.csv", "there is nothing called 'nope.csv'"),
        ("crossover wisconsin --simple majority --complex lineer", "did you mean linear?"),
        ("data path mnst", "did you mean mnist?"),
        ("list learner", "did you mean learners?"),
        ("fti wisconsin", "Did you mean 'fit'?"),
        ("fit wisconsin --set stps=3 --learner linear", "did you mean steps?"),
    ],
)
def test_wrong_name_is_answered_with_the_one_nearest(run: Run, people: Path, words: str, answer: str) -> None:
    Path("model").mkdir()
    Path("model/model.json").touch()
    Path("notes.csv").touch()
    result = run(*words.split())
    assert result.code == 2
    assert result.err.strip().endswith(answer)


def test_shell_completes_verbs_learners_and_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def completed(words: str) -> list[str]:
        state = {"_PRIVAWARE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        code = [sys.executable, "-c", "from privaware.cli import main; main()"]
        return subprocess.run(code, env={**env, **state}, capture_output=True, text=True).stdout.split()

    env = dict(os.environ)
    assert completed("privaware le") == ["ledger"]
    assert "linear" in completed("privaware fit wisconsin --learner li")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").touch()
    assert complete_data("mi") == ["mine.csv"]
    assert "mnist" in complete_data("mn")


ORDERS = "\x1b]0;title\x07\x9b2J\r\u202e"
"""Characters that a terminal obeys: escape sequences, a bell, a carriage return, and another direction of writing."""


def written(text: str) -> bool:
    return bool(text) and all(each.isprintable() or each == "\n" for each in text)


def test_no_name_commands_the_terminal(run: Run, tmp_path: Path) -> None:
    with open(tmp_path / "people.csv", "w", newline="", encoding="utf-8") as file:
        file.write(f'"a{ORDERS}",b,y\n' + f'1.5,"u{ORDERS}","no{ORDERS}"\n2.5,v,yes\n' * 100)
    fitted = ("--target", "y", "--epsilon", "1", "--learner", "majority")
    calls = [
        run("schema", "people.csv", "--target", "y"),
        run("fit", "people.csv", *fitted, "--accept-schema", "--out", "m"),
        run("fit", f"nowhere{ORDERS}.csv", *fitted),
        run("fit", "people.csv", f"--x{ORDERS}"),
        run("fit", "people.csv", "--target", f"a{ORDERS}", "--epsilon", "1"),
        run("verify", "m"),
        run("ledger", "people.csv.ledger"),
    ]
    assert [call.code for call in calls] == [0, 0, 2, 2, 3, 0, 0]
    assert [call.out + call.err for call in calls if not written(call.out + call.err)] == []
    assert Schema.parse(calls[0].out).columns[0].name == f"a{ORDERS}"


def test_warning_and_progress_do_not_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(UserWarning, match="column a") as caught:
        warn_caller(f"column a{ORDERS}")
    to_stderr(f"column a{ORDERS}")
    watched_terminal = Terminal()
    watched_terminal(f"column a{ORDERS}")
    assert written(str(caught[0].message))
    assert written(capsys.readouterr().err)
