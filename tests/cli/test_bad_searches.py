"""Wrong calls of the verbs that search, compare and choose: one sentence, nothing spent, nothing touched."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from privaware.errors import PrivawareError
from privaware.ledger import Ledger
from tests.cli.people import SPACE, TOML, Run, contents, write_people
from tests.cli.wrong_calls import describe, wrong_calls
from tests.cli.wrong_spaces import Wrong

CASES = list(wrong_calls())


def refused(run: Run, case: Wrong, folder: Path) -> str:
    """What is wrong with how a verb takes a wrong call; nothing when all is well."""
    write_people(folder / "people.csv")
    (folder / "people.toml").write_text(TOML)
    (folder / "space.toml").write_text(SPACE)
    Ledger.create(folder / "book.ledger", limit=3.0, delta=1e-5)
    case.fill(folder)
    before = snapshot(folder)
    try:
        result = run(*case.call)
    except (Exception, PrivawareError) as problem:
        return f"traceback {type(problem).__name__}: {problem!s:.300}"
    if result.code not in case.codes:
        return f"exit {result.code}: {result.err or result.out!s:.300}"
    if len(result.err.splitlines()) != 1 or not result.err.startswith("privaware: ") or result.out:
        return f"not one sentence: {result.err!r:.300} {result.out!r:.100}"
    if len(result.err) > 600:
        return f"too much was said: {result.err!r:.700}"
    return "" if snapshot(folder) == before else f"files were touched, and said was {result.err!r:.200}"


def snapshot(folder: Path) -> tuple[object, ...]:
    """All names and contents; a ledger that can be read counts by its entries, for it may rehearse a charge."""
    files: dict[str, object] = dict(contents(folder))
    with suppress(PrivawareError):
        files["book.ledger"] = Ledger.open(folder / "book.ledger").entries()
    return files, sorted(folder.rglob("*"))


def not_refused(run: Run, tmp_path: Path, cases: list[Wrong]) -> list[str]:
    """Every case that was not taken as it should be, and how it was."""
    bad = []
    for case in cases:
        if wrong := refused(run, case, tmp_path):
            bad.append(f"{describe(case)}: {wrong}")
        for item in tmp_path.iterdir():
            shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()
    return bad


def test_one_in_twenty_wrong_calls_is_refused(run: Run, tmp_path: Path) -> None:
    assert not_refused(run, tmp_path, CASES[::20]) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, 20))
def test_other_wrong_calls_are_refused(run: Run, tmp_path: Path, first: int) -> None:
    assert not_refused(run, tmp_path, CASES[first::20]) == []


@pytest.mark.parametrize("verb", ["search", "select", "crossover"])
def test_a_good_call_passes_where_the_wrong_ones_are_stopped(run: Run, tmp_path: Path, verb: str) -> None:
    assert refused(run, Wrong(kind="good", verb=verb, words=()), tmp_path).startswith("exit 0")
