"""Every bad input is refused with one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from privaware.data import Data, draft, read
from privaware.errors import PrivawareError
from privaware.schema import Schema
from tests.data.canaries import leaks, planted
from tests.data.hostile import Case, hostile


def consume(case: Case, folder: Path) -> None:
    """What the command line does with an input before anything is spent."""
    path = case.write(folder)
    schema = Schema.read(folder / "schema.toml") if case.schema is not None else None
    raw = read(path)
    Data.of(raw, schema if schema is not None else draft(raw, target=case.target))


@pytest.mark.parametrize("seed", range(4))
def test_bad_inputs_are_refused_with_one_sentence(seed: int, tmp_path: Path) -> None:
    for at, case in enumerate(hostile(seed, 100)):
        folder = tmp_path / str(at)
        folder.mkdir()
        sentence = _refusal(case, folder)
        assert sentence.strip(), case.kind
        assert len(sentence.splitlines()) == 1, f"{case.kind}: {sentence}"
        assert len(sentence) < 700, f"{case.kind}: {sentence}"
        assert sentence.encode(), case.kind


def _refusal(case: Case, folder: Path) -> str:
    try:
        consume(case, folder)
    except PrivawareError as problem:
        return str(problem)
    return pytest.fail(f"accepted: {case.kind}")


def test_same_seed_generates_the_same_inputs(tmp_path: Path) -> None:
    kinds = [[case.kind for case in hostile(5, 40)] for _ in range(2)]
    assert kinds[0] == kinds[1] != [case.kind for case in hostile(6, 40)]


@pytest.mark.parametrize("seed", range(3))
def test_p46_refusals_show_no_value_of_a_row(seed: int, tmp_path: Path) -> None:
    for at, case in enumerate(planted(seed, 100)):
        folder = tmp_path / str(at)
        folder.mkdir()
        sentence = _refusal(case, folder)
        assert not leaks(sentence), f"{case.kind}: {sentence}"
        assert "'data." in sentence, f"{case.kind}: {sentence}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 23))
def test_p46_two_thousand_refusals_show_no_value_of_a_row(seed: int, tmp_path: Path) -> None:
    test_p46_refusals_show_no_value_of_a_row(seed, tmp_path)
