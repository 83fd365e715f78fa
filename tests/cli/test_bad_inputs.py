"""Bad inputs by the hundred: one sentence, exit 2, nothing spent, nothing overwritten, whatever they are."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from privaware.errors import PrivawareError
from privaware.ledger import Ledger
from tests.cli.damaged import Damage, damaged
from tests.cli.people import Run, contents, write_people
from tests.data.hostile import Case, hostile


@pytest.fixture
def good(run: Run, people: Path, tmp_path: Path) -> Path:
    """A folder with rows, their schema, a model and its ledger."""
    call = ("fit", people, "--schema", "people.toml", "--learner", "linear", "--ledger", "book.ledger", "--limit", 9)
    assert run(*call, "--out", "m").code == 0
    return tmp_path


def refused(run: Run, case: Case, folder: Path) -> str:
    """What is wrong with how `fit` (or `schema`) takes a bad input; nothing when all is well."""
    folder.mkdir()
    data = case.write(folder)
    (folder / "m").mkdir()  # stands for anything that must not be touched
    (folder / "m" / "thesis.txt").write_text("years of work")
    ledger = folder / "book.ledger"
    before = contents(folder)
    result = run("fit", data, *case.arguments(folder), "--ledger", ledger, "--out", folder / "n")
    after = contents(folder)
    spent = [e for e in Ledger.open(ledger).entries() if e.kind == "spend"] if ledger.exists() else []
    after.pop("book.ledger", None)
    return _wrong(result.code, (2,), result.err, result.out) or (
        "a file was touched" if after != before else "budget was spent" if spent else ""
    )


def _wrong(code: int, codes: tuple[int, ...], err: str, out: str) -> str:
    if code not in codes:
        return f"exit {code}: {err or out!s:.300}"
    if code == 4:
        return "" if "NOT valid" in out and not err else f"exit 4 with {out!r:.100} and {err!r:.100}"
    if len(err.splitlines()) != 1 or not err.startswith("privaware: ") or "Traceback" in err:
        return f"not one sentence: {err!r:.300}"
    return "" if len(err) < 900 and not out else f"too much was said: {err!r:.300} {out!r:.100}"


def unheard(run: Run, damage: Damage, good: Path, folder: Path) -> str:
    """What is wrong with how a verb takes a damaged folder or ledger; nothing when all is well."""
    shutil.copytree(good, folder)
    damage.spoil(folder)
    before = contents(folder)
    words = [
        str(folder / w) if w in ("m", "n", "people.csv", "people.toml", "book.ledger", "p.csv", "page.html") else w
        for w in damage.words
    ]
    result = run(*words)
    wrong = _wrong(result.code, damage.codes, result.err, result.out)
    return wrong or ("a file was touched" if contents(folder) != before else "")


def all_refused(run: Run, tmp_path: Path, seed: int, count: int) -> Counter[str]:
    kinds: Counter[str] = Counter()
    bad = []
    for at, case in enumerate(hostile(seed, count)):
        kinds[case.kind.partition(":")[0]] += 1
        if wrong := _guarded(lambda c=case, a=at: refused(run, c, tmp_path / f"case {a}")):
            bad.append(f"{seed}/{at} {case.kind}: {wrong}")
        shutil.rmtree(tmp_path / f"case {at}")
    assert not bad, "\n".join(bad)
    return kinds


def all_heard(run: Run, good: Path, where: Path, seed: int, count: int) -> Counter[str]:
    kinds: Counter[str] = Counter()
    bad = []
    for at, damage in enumerate(damaged(seed, count)):
        kinds[damage.kind.partition(":")[0]] += 1
        if wrong := _guarded(lambda d=damage, a=at: unheard(run, d, good, where / str(a))):
            bad.append(f"{seed}/{at} {damage.kind} {damage.words[0]}: {wrong}")
        shutil.rmtree(where / str(at))
    assert not bad, "\n".join(bad)
    return kinds


def _guarded(check) -> str:  # type: ignore[no-untyped-def]
    """A traceback is a failure like any other, reported with the case that caused it."""
    try:
        return check()
    except (Exception, PrivawareError) as problem:
        return f"traceback {type(problem).__name__}: {problem!s:.300}"


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    return tmp_path_factory.mktemp("damaged")


def test_bad_data_and_schemas_are_refused(run: Run, tmp_path: Path) -> None:
    assert len(all_refused(run, tmp_path, seed=1, count=160)) == 8


def test_damaged_models_and_ledgers_are_detected(run: Run, good: Path, elsewhere: Path) -> None:
    assert len(all_heard(run, good, elsewhere, seed=1, count=140)) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 14))
def test_twelve_hundred_bad_data_and_schemas_are_refused(run: Run, tmp_path: Path, seed: int) -> None:
    assert all_refused(run, tmp_path, seed, count=100).total() == 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 10))
def test_eight_hundred_damaged_models_and_ledgers_are_detected(
    run: Run, good: Path, elsewhere: Path, seed: int
) -> None:
    assert all_heard(run, good, elsewhere, seed, count=100).total() == 100


def test_a_good_input_passes_where_the_bad_ones_are_stopped(run: Run, tmp_path: Path) -> None:
    """Otherwise the checks above would also pass a command line that refuses everything."""
    good = Case(kind="good", name="people.csv", fill=lambda path: write_people(path) and None)
    assert refused(run, good, tmp_path / "case").startswith("exit 0")
