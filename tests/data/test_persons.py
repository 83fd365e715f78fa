"""The rows of persons that count in a table in parts: those of the table at once, whatever the parts and the names."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privaware.data import Data, LargeCsv, LargeTable, LocalParts, Raw, _large, _persons, coded_rows, labelled, read
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

CLASSES = ("no", "yes")
SCHEMA = Schema(columns=(Column(name="at", low=0, high=1e6),), target="y", classes=CLASSES, unit="who", cap=2)
READING = {"header": None, "sep": None, "decimal": None, "encoding": None}
NAMES: dict[str, list[Any]] = {
    "whole numbers": [0, 7, -3, 2**53 + 1, 2**53 + 2, 12],
    "text": ["ann", "Ann", "bo", "zoë", "x y", "12"],
    "fractions": [0.5, 1.0, -0.25, 1e17, 2.5, 12.0],
}


def visits(names: list[Any], rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Rows of persons, some with very many, some without a target; `at` says which row it is."""
    draw = np.random.default_rng(seed)
    who = draw.choice(len(names), rows, p=np.array([10, 5, 3, 2, 1, 1]) / 22)
    y = np.where(draw.random(rows) < 0.1, None, np.where(draw.random(rows) < 0.5, "yes", "no"))
    return pd.DataFrame({"who": [names[at] for at in who], "at": np.arange(rows), "y": y})


def first_rows(frame: pd.DataFrame, cap: int) -> list[int]:
    """The slow and obvious way."""
    seen: Counter[Any] = Counter()
    kept = []
    for row in frame.dropna(subset="y").itertuples():
        seen[row.who] += 1
        kept += [row.at] if seen[row.who] <= cap else []
    return kept


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES.keys())
@pytest.mark.parametrize("cap", [1, 3])
@pytest.mark.parametrize("suffix", ["parquet", "csv", "frame"])
def test_the_first_rows_of_each_person_count_over_all_parts(
    suffix: str, cap: int, names: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, path = visits(names), tmp_path / f"t.{suffix}"
    schema = replace(SCHEMA, cap=cap, rows=400)
    monkeypatch.setattr(_large, "PART", 97)
    monkeypatch.setattr(_large, "LARGE", 1)
    monkeypatch.setattr(LargeCsv, "block", 800)
    monkeypatch.setattr(_persons, "MAX_ROWS_PER_SLICE", 200)
    if suffix == "csv":
        frame.to_csv(path, index=False)
        rows: Any = LargeCsv(path, READING).streamed(schema)
    elif suffix == "parquet":
        frame.to_parquet(path, row_group_size=150)
        rows = LargeTable(path).streamed(schema)
    else:
        rows = coded_rows(read(frame.dropna(subset="y")), schema)
    gathered = rows.gathered()
    assert gathered.schema == schema
    assert gathered.x[:, 0].tolist() == first_rows(frame, cap)


def test_spellings_of_one_person_agree_over_blocks_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In some blocks the column is numbers, in others text; "7", " 7" and "7 " are one person, "7.0" is another."""
    names = [*["7"] * 40, *[" 7", "7.0", "7 ", "seven"] * 10, *["7.0"] * 40, *["7"] * 40]
    lines = [f"{who},{at},{CLASSES[at % 2]}" for at, who in enumerate(names)]
    (tmp_path / "t.csv").write_text("\n".join(["who,at,y", *lines]) + "\n")
    monkeypatch.setattr(LargeCsv, "block", 200)
    table = LargeCsv(tmp_path / "t.csv", READING)
    assert len(list(table.file.blocks())) > 5
    assert table.streamed(SCHEMA).gathered().x[:, 0].tolist() == [0, 1, 41, 43, 45, 47]
    assert Data.of(read(tmp_path / "t.csv"), SCHEMA).x[:, 0].tolist() == [0, 1, 41, 43, 45, 47]


def in_parts(persons: list[str], edges: list[int]) -> LocalParts[Raw]:
    frame = pd.DataFrame({"who": persons, "y": "yes"})
    cuts = [0, *sorted(edge % (len(persons) + 1) for edge in edges), len(persons)]
    ranges = [(begin, end) for begin, end in pairwise(cuts) if begin < end]
    parts = [Raw(frame=frame.iloc[begin:end].reset_index(drop=True), begin=begin) for begin, end in ranges]
    return LocalParts(lambda: iter(parts))


def counted(persons: list[str], edges: list[int], cap: int, rows: int) -> list[int]:
    found = _persons.counted_rows(in_parts(persons, edges), replace(SCHEMA, cap=cap), rows)
    return np.flatnonzero(np.unpackbits(found.bits(0, len(persons)), count=len(persons))).tolist()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=30),
    st.lists(st.integers(0, 40), max_size=4),
    st.integers(1, 3),
    st.sampled_from((1, 3 * _persons.MAX_ROWS_PER_SLICE)),
)
def test_p34_leaving_person_moves_only_own_rows_and_at_most_cap(
    persons: list[str], edges: list[int], cap: int, rows: int
) -> None:
    """Whatever the parts and slices: the neighbours that the price is for."""
    kept = counted(persons, edges, cap, rows)
    for person in set(persons):
        own = [at for at, who in enumerate(persons) if who == person]
        assert [at for at in kept if persons[at] == person] == own[:cap]
        others = [at for at, who in enumerate(persons) if who != person]
        if others:
            without = counted([persons[at] for at in others], edges, cap, rows)
            assert [others[at] for at in without] == [at for at in kept if persons[at] != person]


@pytest.mark.parametrize("weak", ["a" * 16, "b" * 16])
def test_persons_with_the_same_half_of_a_hash_are_two(weak: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one half alone they would share a cap, and which rows of one count would follow from those of the other."""
    keys, hash_array = iter(["a" * 16, "b" * 16]), pd.util.hash_array

    def alike(words: np.ndarray, hash_key: str, categorize: bool) -> np.ndarray:
        return hash_array(np.full_like(words, "one") if hash_key == weak else words, hash_key=hash_key)

    monkeypatch.setattr(_persons.secrets, "token_urlsafe", lambda size: next(keys))
    monkeypatch.setattr(pd.util, "hash_array", alike)
    assert counted(list("abacbabc"), [2, 5], 2, 8) == [0, 1, 2, 3, 4, 7]


def test_one_person_with_most_rows_does_not_fill_the_memory() -> None:
    what = _persons._Slice(schema=SCHEMA, keys=("k" * 16, "l" * 16), slice=0, slices=1)
    [[candidates]] = [what.partial(part).values() for part in in_parts(["a"] * 5000, []).listed()]
    assert (candidates.rows, candidates.positions.tolist()) == (5000, [0, 1])


def test_a_row_that_is_nobodys_is_refused_as_it_is_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_large, "PART", 37)
    monkeypatch.setattr(LargeCsv, "block", 500)
    frame = visits(NAMES["text"])
    without = frame.index[frame.y.isna()][0]
    frame.loc[without, "who"] = None  # left out anyway
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert len(LargeTable(tmp_path / "t.parquet").streamed(SCHEMA).gathered()) == 12
    assert len(LargeCsv(tmp_path / "t.csv", READING).streamed(SCHEMA).gathered()) == 12
    frame.loc[frame.index[frame.y.notna()][200], "who"] = None
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.csv", index=False)
    for table, path in ((LargeTable, "t.parquet"), (lambda path: LargeCsv(path, READING), "t.csv")):
        with pytest.raises(WrongInput, match="expected a value that says whose row it is") as at_once:
            Data.of(labelled(read(tmp_path / path), "y", CLASSES), SCHEMA)
        with pytest.raises(WrongInput) as in_pieces:
            table(tmp_path / path).streamed(SCHEMA)
        assert str(in_pieces.value) == str(at_once.value)


def test_a_unit_that_is_no_column_is_refused_by_the_names_of_all(tmp_path: Path) -> None:
    visits(NAMES["text"]).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(WrongInput, match=r"the unit column 'whom' among the columns 'who', 'at', 'y'"):
        LargeTable(tmp_path / "t.parquet").streamed(replace(SCHEMA, unit="whom"))


def table(who: pa.Array, first: int, y: str | None = "yes") -> pa.Table:
    return pa.table({"who": who, "at": list(range(first, first + len(who))), "y": pa.array([y] * len(who), "string")})


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Persons have rows in several row groups, parts and slices."""
    monkeypatch.setattr(_large, "PART", 7)
    monkeypatch.setattr(_large, "PIECE", 10)
    monkeypatch.setattr(_persons, "MAX_ROWS_PER_SLICE", 20)


def kept(path: Path, place: Any = None) -> list[float]:
    return sorted(LargeTable(path, place).streamed(SCHEMA).gathered().x[:, 0].tolist())


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("backwards", [False, True])
def test_one_person_over_files_of_other_types_has_one_cap(tmp_path: Path, backwards: bool) -> None:
    """1, "1", 1.0 and a dictionary's "1" are one person; a file without rows moves nothing, in any order of parts."""
    files = [pa.array([1, 2, 1, 2, 3]), pa.array([], "int64"), pa.array(["1", "3", "3", "2", " 1"])]
    files += [pa.array([1.0, 3.0, 4.0]), pa.array(["4", "4", "5"]).dictionary_encode()]
    first = 0
    for at, who in enumerate(files):
        pq.write_table(table(who, first), tmp_path / f"{at}.parquet")
        first += len(who)

    def place(pieces: Any) -> LocalParts[Raw]:
        ordered = list(reversed(pieces)) if backwards else list(pieces)
        return LocalParts(lambda: chain.from_iterable(piece() for piece in ordered))

    assert kept(tmp_path, place) == kept(tmp_path) == [0, 1, 2, 3, 4, 6, 12, 13, 15]


@pytest.mark.usefixtures("small_parts")
def test_long_numbers_stay_two_persons_beside_a_row_of_nobody(tmp_path: Path) -> None:
    """A missing person in a row without a target must not turn numbers into fractions, which are as good as equal."""
    alone = table(pa.array([2**53 + 1, 2**53 + 2] * 10), 0)
    beside = pa.concat_tables([alone, table(pa.array([None], "int64"), 20, None)])
    for rows in (alone, beside):
        pq.write_table(rows, tmp_path / "t.parquet", row_group_size=5)
        assert kept(tmp_path / "t.parquet") == [0, 1, 2, 3]


@pytest.mark.usefixtures("small_parts")
def test_either_zero_is_one_person_whatever_part_it_is_in(tmp_path: Path) -> None:
    pq.write_table(
        table(pa.array([0.0, -0.0] * 4 + [-0.0] * 8 + [0.0] * 8), 0), tmp_path / "t.parquet", row_group_size=5
    )
    assert kept(tmp_path / "t.parquet") == [0, 1]


@pytest.mark.usefixtures("small_parts")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(1, 30))
def test_p34_leaving_person_moves_no_other_row_of_a_parquet_file(
    tmp_path: Path, persons: list[int], group: int
) -> None:
    """Whatever the order of rows and the size of row groups, which change with the person's rows."""

    def rows_that_count(left: list[int]) -> set[float]:
        rows = table(pa.array(persons), 0).take(left)
        pq.write_table(rows, tmp_path / "t.parquet", row_group_size=group)
        return set(kept(tmp_path / "t.parquet"))

    everyone = rows_that_count(list(range(len(persons))))
    others = [at for at, who in enumerate(persons) if who != persons[0]]
    own = {at for at, who in enumerate(persons) if who == persons[0]}
    assert everyone - own == (rows_that_count(others) if others else set())
    assert len(everyone & own) == min(len(own), SCHEMA.cap)
