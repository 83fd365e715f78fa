"""Kinds that the owner declares cost nothing, and kinds that noise decided are said to be guesses."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privaware
from privaware.errors import WrongInput
from privaware.preprocessing._ranges.open_columns import NONE
from privaware.schema import Column, Schema
from privaware.workflow.run.declared_kinds import draft_kinds, guess_sentences


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """A CSV file with twelve columns of letters, of which the first is the target."""
    rng = np.random.default_rng(0)
    target = rng.integers(0, 2, 600)
    columns = {f"c{at}": np.array(list("abc"))[(target + rng.integers(0, 2, 600)) % 3] for at in range(12)}
    file = tmp_path / "letters.csv"
    pd.DataFrame({"won": np.array(["no", "yes"])[target], **columns}).to_csv(file, index=False)
    return file


def plan(file: Path, **more: Any) -> str:
    result = privaware.fit(file, epsilon=0.1, target="won", learner="linear", dry_run=True, verbose=True, **more)
    return " ".join(result.plan)


def test_a_budget_too_small_for_the_columns_is_said_before(letters: Path) -> None:
    assert "will be guesses. Declare them (schema=, or kinds= for types)" in plan(letters)
    wide = privaware.fit(letters, epsilon=50.0, target="won", learner="linear", dry_run=True)
    assert "guesses" not in " ".join(wide.plan)


def test_declared_kinds_are_not_estimated(letters: Path, tmp_path: Path) -> None:
    kinds = dict.fromkeys((f"c{at}" for at in range(12)), "category")
    assert "types and ranges" in plan(letters)
    assert "types and ranges" not in plan(letters, kinds=kinds)
    file = tmp_path / "kinds.toml"
    file.write_text("".join(f'{name} = "{kind}"\n' for name, kind in kinds.items()))
    assert plan(letters, kinds=file) == plan(letters, kinds=kinds)


def test_a_draft_of_kinds_names_every_column_once(letters: Path) -> None:
    drafted = tomllib.loads(draft_kinds(letters))
    assert list(drafted) == ["won", *(f"c{at}" for at in range(12))]
    assert set(drafted.values()) == {"undecided"}
    frame = pd.read_csv(letters)
    frame.to_json(letters.with_suffix(".jsonl"), orient="records", lines=True)
    frame.to_parquet(letters.with_suffix(".parquet"))
    assert draft_kinds(letters.with_suffix(".jsonl")) == draft_kinds(letters)
    with pytest.raises(WrongInput, match="which declares types; leave out kinds="):
        draft_kinds(letters.with_suffix(".parquet"))


@pytest.mark.parametrize(
    ("kinds", "message"),
    [({"c99": "number"}, "got 'c99'"), ({"c1": "letter"}, "expected 'c1' to be one of"), ("none.toml", "none.toml")],
)
def test_wrong_kinds_are_refused_in_one_sentence(letters: Path, kinds: Any, message: str) -> None:
    with pytest.raises(WrongInput, match=message):
        plan(letters, kinds=kinds)


def test_kinds_that_noise_decided_are_called_guesses(letters: Path) -> None:
    unsure = privaware.fit(letters, epsilon=0.1, target="won", learner="linear", seed=0, limit=9.0)
    assert any("too large to be sure of the kind" in sentence for sentence in unsure.notices)
    kinds = dict.fromkeys((f"c{at}" for at in range(12)), "category")
    sure = privaware.fit(letters, epsilon=0.1, target="won", learner="linear", seed=0, kinds=kinds, limit=9.0)
    assert not any("sure of the kind" in sentence for sentence in sure.notices)


def test_a_draft_is_accepted_with_the_target_and_the_persons(letters: Path, tmp_path: Path) -> None:
    file = tmp_path / "kinds.toml"
    file.write_text(draft_kinds(letters).replace('"undecided"', '"category"'))
    assert "types and ranges" not in plan(letters, kinds=file, unit="c0", cap=5)
    assert "won" not in tomllib.loads(draft_kinds(letters, without=("won",)))


def test_a_column_without_a_released_category_is_named(letters: Path) -> None:
    kinds = dict.fromkeys((f"c{at}" for at in range(12)), "category")
    lost = privaware.fit(letters, epsilon=0.05, target="won", learner="linear", seed=0, kinds=kinds, limit=9.0)
    assert any("No value of 'c0'" in sentence and "and 7 more" in sentence for sentence in lost.notices)


def released_and_before(*columns: Column) -> tuple[Schema, Schema]:
    """The schema with the released `columns`, and the schema before, in which their kinds are undecided."""
    before = tuple(Column(name=column.name, kind="undecided") for column in columns)
    return tuple(Schema(columns=each, classes=("a", "b"), rows=100) for each in (columns, before))  # type: ignore


def test_lost_categories_are_declared_only_if_public() -> None:
    names = Column(name="nick", kind="category", categories=NONE)
    (sentence,) = guess_sentences(*released_and_before(names))
    assert "If its categories are public, declare them" in sentence
    assert 'kind = "ignore"' in sentence


def test_a_column_that_tells_only_missing_values_apart_is_named() -> None:
    (sentence,) = guess_sentences(*released_and_before(Column(name="nick", kind="category", categories=("",))))
    assert "the model learns only whether a value is missing." in sentence
    (sentence,) = guess_sentences(*released_and_before(Column(name="nick", kind="category", categories=("", "Jo"))))
    assert sentence.startswith("Only one category of 'nick'")


def test_a_column_with_one_released_category_is_named() -> None:
    payment = Column(name="payment", kind="category", categories=("card",))
    (sentence,) = guess_sentences(*released_and_before(payment))
    assert sentence.startswith("Only one category of 'payment' was frequent enough")
    assert "declare them with --schema FILE; a larger epsilon" in sentence
    declared = Schema(columns=(payment,), classes=("a", "b"), rows=100)
    assert not guess_sentences(declared, declared)


def test_a_column_counted_as_free_text_is_named() -> None:
    (sentence,) = guess_sentences(*released_and_before(Column(name="note", kind="text")))
    assert "free text, by noisy counts: 'note'. If one of them is not, declare its kind (--kinds FILE)" in sentence
