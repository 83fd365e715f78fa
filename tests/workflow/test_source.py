"""What is public about rows without a schema, and how one row changes it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from privaware.events import Pure, leaves
from privaware.ledger import Ledger
from privaware.workflow._options import RunOptions
from privaware.workflow._source import resolve
from privaware.workflow.fit import fit

ROWS = 300


def ages(*, last: str) -> pd.DataFrame:
    frame = pd.DataFrame({"age": [str(18 + at % 60) for at in range(ROWS)], "y": ["no", "yes"] * (ROWS // 2)})
    frame.loc[ROWS - 1, "age"] = last
    return frame


def test_p12_one_word_among_numbers_of_a_csv_does_not_change_its_schema(tmp_path: Path) -> None:
    schemas = []
    for last in ("44", "unknown age"):
        ages(last=last).to_csv(tmp_path / "people.csv", index=False)
        schemas.append(resolve(tmp_path / "people.csv", RunOptions(target="y")).schema)
    assert schemas[0] == schemas[1]
    assert [column.kind for column in schemas[0].columns] == ["undecided"]


def test_kind_of_text_is_paid_for_and_that_of_numbers_is_given(tmp_path: Path) -> None:
    ages(last="unknown age").to_csv(tmp_path / "people.csv", index=False)
    model = fit(tmp_path / "people.csv", target="y", epsilon=8.0).model
    assert model is not None
    assert [(column.name, column.kind) for column in model.schema.columns] == [("age", "number")]
    charged = Ledger.open(tmp_path / "people.csv.ledger").entries()[-2].event
    assert charged is not None
    counts = {leaf.epsilon for leaf, _ in leaves(charged) if isinstance(leaf, Pure)}
    assert max(counts) == pytest.approx(4 * min(counts))
    typed = resolve(ages(last="44").astype({"age": int}), RunOptions(target="y")).schema
    assert [column.kind for column in typed.columns] == ["number"]
    assert "the names and kinds of the columns" in typed.assumed


def test_drafted_schema_holds_no_undecided_kind(tmp_path: Path) -> None:
    ages(last="44").to_csv(tmp_path / "people.csv", index=False)
    drafted = resolve(tmp_path / "people.csv", RunOptions(target="y", accept_schema=True)).schema
    assert [column.kind for column in drafted.columns] == ["number"]
