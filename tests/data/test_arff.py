"""ARFF files are tables: types from the header, rows dense or sparse, and refusals by line that show no value."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from privaware import fit, load, predict
from privaware.data import draft, read, typed, words_of
from privaware.errors import WrongInput

HEADER = """% a comment
@RELATION 'some goods'

@attribute price NUMERIC
@attribute 'home town' {Bonn, 'New York', "L'Aquila", other}
@attribute note string
@attribute day date "dd.MM.yyyy HH:mm"
@attribute sold {no,yes}
@DATA
"""
DENSE = r"""1.5, Bonn, 'it\'s fine, really', '01.02.2020 10:30', no
?,'New York',"two words",?,yes
% between rows
-2e3,"L'Aquila",?,"31.12.2021 00:00",yes
"""


def test_values_are_what_the_header_says(tmp_path: Path) -> None:
    (tmp_path / "goods.arff").write_text(HEADER + DENSE, encoding="utf-8")
    raw = read(tmp_path / "goods.arff")
    frame = raw.frame
    assert frame is not None
    assert raw.columns == ["price", "home town", "note", "day", "sold"]
    assert np.array_equal(frame["price"], [1.5, np.nan, -2000.0], equal_nan=True)
    assert frame["home town"].tolist() == ["Bonn", "New York", "L'Aquila"]
    assert words_of(frame["note"]).map(str, object).tolist() == ["it's fine, really", "two words", ""]
    assert [str(day) for day in frame["day"]] == ["2020-02-01 10:30:00", "NaT", "2021-12-31 00:00:00"]
    assert raw.place(2) == "line 13"
    kinds = {column.name: column.kind for column in typed(raw, target="sold").columns}
    assert kinds == {"price": "number", "home town": "category", "note": "undecided", "day": "date"}


def test_arff_values_that_no_row_has_are_not_drafted(tmp_path: Path) -> None:
    rows = "".join(f"{at},{'Bonn' if at % 3 else 'New York'},x,?,{'yes' if at % 2 else 'no'}\n" for at in range(40))
    (tmp_path / "goods.arff").write_text(HEADER + rows.replace("New York", "'New York'"), encoding="utf-8")
    raw = read(tmp_path / "goods.arff")
    town = draft(raw, target="sold").columns[1]
    assert town.categories == ("Bonn", "New York")
    assert typed(raw, target="sold").bare().columns[1].categories == ()


def test_sparse_rows_leave_out_zeros_and_first_values(tmp_path: Path) -> None:
    content = HEADER.replace("{no,yes}", "{no,yes} ") + "{0 7, 1 'New York', 4 yes}\n{}\n{0 ?, 3 '02.01.1970 00:00'}\n"
    (tmp_path / "goods.arff.gz").write_bytes(gzip.compress(content.encode()))
    frame = read(tmp_path / "goods.arff.gz").frame
    assert frame is not None
    assert np.array_equal(frame["price"], [7.0, 0.0, np.nan], equal_nan=True)
    assert frame["home town"].tolist() == ["New York", "Bonn", "Bonn"]
    assert frame["sold"].tolist() == ["yes", "no", "no"]
    assert frame["day"].astype(str).tolist() == ["1970-01-01", "1970-01-01", "1970-01-02"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1.5, Bonn", "Qcanary, Bonn", "line 10, column 'price': expected a number"),
        ("1.5, Bonn", "1.5, Qcanary", "line 10, column 'home town': expected a value that the header lists"),
        ("01.02.2020", "2020-Qcanary", "line 10, column 'day': expected a date of the pattern in the header"),
        (", no\n", "\n", "line 10: expected 5 values, one for each @attribute, got 4"),
        ("really',", "really,", "line 10: expected values between commas, got a quotation mark that is not closed"),
        ("1.5, Bonn, ", "{9 Qcanary}\n1.5, Bonn, ", "line 10: expected pairs of a number from 0 to 4"),
        ("note string", "note relational", "line 6: expected the type numeric, string, date or a list in braces"),
        ("dd.MM.yyyy", "EEE dd.MM.yyyy", "line 7: expected a date of yyyy, "),
        ("@DATA", "", "line 10: expected @relation, @attribute or @data"),
        ("@attribute note string\n", "note string\n", "line 6: expected @relation"),
    ],
)
def test_what_breaks_the_rules_is_refused_by_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in HEADER + DENSE
    (tmp_path / "goods.arff").write_text((HEADER + DENSE).replace(old, new, 1), encoding="utf-8")
    with pytest.raises(WrongInput, match=message) as refused:
        read(tmp_path / "goods.arff")
    assert "Qcanary" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"@relation x\n", b"\x93\xff bytes", b"@data\n1,2\n"])
def test_other_files_are_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "goods.arff").write_bytes(content)
    with pytest.raises(WrongInput, match=r"goods\.arff") as refused:
        read(tmp_path / "goods.arff")
    assert len(str(refused.value).splitlines()) == 1


def test_latin_1_is_named(tmp_path: Path) -> None:
    content = "@relation r\n@attribute town {Köln,Bonn}\n@attribute y numeric\n@data\nKöln,1\n"
    (tmp_path / "goods.arff").write_bytes(content.encode("latin-1"))
    with pytest.raises(WrongInput, match="name another with encoding="):
        read(tmp_path / "goods.arff")
    frame = read(tmp_path / "goods.arff", encoding="latin-1").frame
    assert frame is not None
    assert frame["town"].tolist() == ["Köln"]


def test_a_model_is_fitted_on_and_predicts_an_arff_file(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    rows = [(x, "yes" if x > 0 else "no") for x in draw.normal(size=400)]
    header = "@relation r\n@attribute x real\n@attribute y {no,yes}\n@data\n"
    (tmp_path / "r.arff").write_text(header + "".join(f"{x:.4f},{y}\n" for x, y in rows))
    (tmp_path / "new.arff").write_text(header.replace("@attribute y {no,yes}\n", "") + "-2.0\n2.0\n")
    fit(tmp_path / "r.arff", target="y", epsilon=8.0, out=tmp_path / "model", seed=1)
    assert predict(tmp_path / "model", tmp_path / "new.arff", out=tmp_path / "out.csv")["rows"] == 2
    assert load(tmp_path / "model").predict(tmp_path / "new.arff").tolist() == ["no", "yes"]
