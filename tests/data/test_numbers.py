"""Money, percentages, measures and grouped digits are numbers, each value by itself; dates are not."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privaware
from privaware.data import COUNTED, Data, draft, kind_counts, read, typed, uncoded_column
from privaware.data._kinds import kind_of_word
from privaware.data._numbers import LETTERS, MEASURES, measure_of, number_of, plain_number_of
from privaware.schema import folded


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("$1,234.50", 1234.5),
        ("12 €", 12.0),
        ("€ 12.5", 12.5),
        ("-£3", -3.0),
        ("$-3", -3.0),
        ("31.2%", 31.2),
        ("1,234,567", 1234567.0),
        ("1'234.50 CHF", 1234.5),
        ("(1,200.00)", -1200.0),
        ("($5)", -5.0),
        ("USD 7", 7.0),
        ("−4 €", -4.0),
        ("1e-3", 0.001),
        ("7 kg", 7.0),
        ("-3.5°C", -3.5),
        ("1,200 mg/dl", 1200.0),
        ("5 g", 5.0),
        ("12 km/h", 12.0),
        ("142 mmHg", 142.0),
        ("7 KG", 7.0),
        ("12 eur", 12.0),
        ("5\u00a0mg", 5.0),
        ("3 μg", 3.0),
    ],
)
def test_number_is_read_as_people_write_it(word: str, number: float) -> None:
    assert number_of(word) == number
    assert kind_of_word(word) == "number"


@pytest.mark.parametrize(
    "word",
    [
        "7 apples",
        "5g",
        "7 A",
        "kg",
        "7 kg kg",
        "7 K",
        "12 k",
        "3 M",
        "3 m",
        "$3 M",
        "12,34",
        "0,512",
        "1,23,456",
        "(1)",
        "5%%",
        "$",
        "%",
        "-$-3",
        "(-3€)",
        "$5-$10",
        "1_000",
        "3rd",
        "١٢ €",
        "12 ſec",
        "12 \u212am",
    ],
)
def test_what_is_no_number_for_certain_is_none(word: str) -> None:
    assert np.isnan(number_of(word))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_of_programs_are_read_as_before(number: float) -> None:
    for word in (repr(number), str(number).upper(), f" {number!r} "):
        assert number_of(word) == plain_number_of(word) == number


@given(st.decimals(min_value=-(10**9), max_value=10**9, places=2))
def test_money_is_the_number_it_was_written_from(amount: object) -> None:
    digits = re.sub("-", "", f"{amount:,.2f}")
    sign = "-" if amount < 0 else ""  # type: ignore[operator]
    for word in (f"{sign}${digits}", f"{sign}{digits} €", f"${sign}{digits}"):
        assert number_of(word) == float(str(amount))


@given(
    st.from_regex(r"[-$]?[0-9]{1,3}(,[0-9]{3})?", fullmatch=True),
    st.sampled_from((*MEASURES.split(), *LETTERS.split(), "EUR", "US$", "zł", "%", "rooms")),
    st.sampled_from(("", " ", "\u00a0")),
)
def test_folded_number_with_its_unit_is_the_same(number: str, unit: str, blank: str) -> None:
    for spelled in (unit, unit.upper(), unit.lower()):
        word = f"{number}{blank}{spelled}"
        assert np.array_equal(number_of(word), number_of(folded(word)), equal_nan=True)


def test_units_differ_by_case_only_where_both_are_units() -> None:
    words = ("1 KG", "1 kg", "1 mW", "1 MW", "1 μg", "1 L")
    assert [measure_of(word) for word in words] == ["kg", "kg", "mW", "MW", "µg", "l"]


@pytest.mark.parametrize("word", ["3 mw", "3 Mw"])
def test_ambiguous_case_of_a_unit_has_no_unit(word: str) -> None:
    assert measure_of(word) == ""
    assert number_of(word) == 3.0


UNITS = {"pressure": "mmHg", "heat": "°C", "weight": "kg", "fee": "EUR", "size": "cm", "dose": "µg"}


def with_units(path: Path, sep: str, decimal: str) -> Path:
    """Write a table of 400 rows whose columns are numbers with the units `UNITS`."""
    rows = [[f"{at + 0.5}".replace(".", decimal) + f" {unit}" for unit in UNITS.values()] for at in range(400)]
    lines = [sep.join((*(f'"{cell}"' for cell in row), "no" if at < 200 else "yes")) for at, row in enumerate(rows)]
    path.write_text("\n".join((sep.join((*UNITS, "y")), *lines)), encoding="utf-8")
    return path


@pytest.mark.parametrize(("sep", "decimal"), [(",", "."), (";", ","), (",", ",")])
def test_numbers_with_units_count_as_numbers(tmp_path: Path, sep: str, decimal: str) -> None:
    raw = read(with_units(tmp_path / "units.csv", sep, decimal), decimal=None if sep == ";" else decimal)
    schema = typed(raw, target="y")
    assert {column.kind for column in schema.columns} == {"undecided"}
    rows = Data.uncoded(raw, schema)
    for at, name in enumerate(UNITS):
        assert dict(zip(COUNTED, kind_counts(uncoded_column(rows.x, at)), strict=True))["number"] == 400, name
    drafted = draft(raw, target="y")
    assert {column.kind for column in drafted.columns} == {"number"}
    assert Data.of(raw, drafted).x[7].tolist() == [7.5] * len(UNITS)


def test_page_lists_every_unit_that_is_read() -> None:
    page = (Path(privaware.__file__).parents[1] / "docs/how_to/read_files.md").read_text(encoding="utf-8")
    line = next(line for line in page.splitlines() if line.startswith("Units that may follow a number:"))
    assert [unit for part in re.findall("`(.*?)`", line) for unit in part.split()] == MEASURES.split()
    after = page[page.index(line) :].split("\n\n", 1)[0]
    assert all(f"`{letter}`" in after for letter in LETTERS.split())


def test_columns_and_target_of_money_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "money.csv"
    lines = (f'"${at * 1000 + 0.5:,.2f}",{at % 7} €,{at % 5}%,"${at * 2000:,.0f}"' for at in range(1, 40))
    path.write_text("\n".join(("pay,fee,share,price", *lines)))
    schema = draft(read(path), target="price")
    assert schema.task == "regression"
    assert {column.name: column.kind for column in schema.columns} == dict.fromkeys(("pay", "fee", "share"), "number")
    data = Data.of(read(path), schema)
    assert data.x[1].tolist() == [2000.5, 2.0, 2.0]
    assert data.y[1] == 4000.0


def test_points_divide_groups_where_a_decimal_comma_follows(tmp_path: Path) -> None:
    path = tmp_path / "german.csv"
    path.write_text("a;b;c\n33.547,84 €;1.234;12,5 %\n-1.000,00;2.5;3\n")
    table = read(path).frame
    assert table is not None
    assert [number_of(str(word)) for word in table["a"]] == [33547.84, -1000.0]
    assert table["b"].astype(float).tolist() == [1.234, 2.5]
    assert [number_of(str(word)) for word in table["c"]] == [12.5, 3.0]
    declared = read(path, decimal=",").frame
    assert declared is not None
    assert float(declared["b"].iloc[0]) == 1234.0
