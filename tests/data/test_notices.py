"""What is not used is said, and why; persons with several rows are pointed out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from privaware.data import Raw, draft, notices, person_columns, read, repeated_identifiers, typed, unused_columns
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

ROWS = 200


def visits() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": draw.integers(18, 90, ROWS),
            "patient_id": np.arange(ROWS) // 2,
            "seen": pd.date_range("2020-01-01", periods=ROWS),
            "note": [f"pain in limb {at} since then" for at in range(ROWS)],
            "town": draw.choice(["Ulm", "Bonn"], ROWS),
            "codes": [[1, 2]] * ROWS,
            "y": draw.choice(["no", "yes"], ROWS),
        }
    )


def by_type(frame: pd.DataFrame, unit: str = "row") -> Schema:
    return typed(read(frame), target="y", unit=unit).bare()


def test_p50_unused_columns_are_said_with_their_reason() -> None:
    frame = visits()
    frame["code"] = [f"P{at:04}" for at in range(ROWS)]
    (first,) = unused_columns(by_type(frame), written=False)
    second, *_ = notices(read(frame), by_type(frame))
    assert first == (
        "Not used: 'patient_id' (by its name it identifies persons or cases), 'codes' (it has no single values, or the "
        "same value in every row). To use such a column as a feature, pass --not-persons COLUMN."
    )
    assert second.startswith(f"Hardly used: 'code', because it has {ROWS:,} different values in {ROWS:,} rows. Only")
    assert not any("note" in sentence or "seen" in sentence for sentence in (first, second))


def test_p50_hardly_used_column_is_said_with_its_true_count() -> None:
    rows = 2382
    codes = [f"{'P' if at % 2 else 'p'}{at % 900:04}" for at in range(rows)]
    frame = pd.DataFrame({"code": codes, "y": ["no", "yes"] * (rows // 2)})
    [said] = notices(read(frame), by_type(frame))
    assert said.startswith("Hardly used: 'code', because it has 900 different values in 2,382 rows. Only values")


def test_p50_persons_with_several_rows_are_pointed_out() -> None:
    frame = visits()
    assert repeated_identifiers(read(frame), by_type(frame)) == ["patient_id"]
    assert repeated_identifiers(read(frame), by_type(frame), ["patient_id"]) == []
    named = frame.rename(columns={"patient_id": "customer name"}).assign(
        **{"customer name": [f"p{at}" for at in range(ROWS)]}
    )
    assert repeated_identifiers(read(named), by_type(named)) == []
    assert repeated_identifiers(read(frame), by_type(frame, unit="patient_id")) == []


def test_missing_identifier_is_no_repeated_one() -> None:
    frame = visits()
    frame["patient_id"] = [f"P{at}" if at else "" for at in range(ROWS)]
    assert repeated_identifiers(read(frame), by_type(frame)) == []
    frame.loc[2, "patient_id"] = "P1"
    assert repeated_identifiers(read(frame), by_type(frame)) == ["patient_id"]


def test_type_and_owner_can_say_that_nobody_is_identified() -> None:
    frame = visits().assign(MRN=range(ROWS), customer=[True, False] * (ROWS // 2), telephone=["yes", "no"] * 100)
    schema = by_type(frame)
    assert person_columns(read(frame), schema) == ["patient_id", "MRN"]
    assert person_columns(read(frame), schema, ["MRN"]) == ["patient_id"]
    kinds = {column.name: column.kind for column in schema.columns}
    assert (kinds["MRN"], kinds["customer"], kinds["telephone"]) == ("identifier", "boolean", "undecided")


def test_column_that_identifies_nobody_is_used() -> None:
    frame = visits().assign(PatNr=range(ROWS))
    for make in (typed, draft):
        kinds = {
            column.name: column.kind for column in make(read(frame), target="y", not_persons=["patient_id"]).columns
        }
        assert (kinds["patient_id"], kinds["PatNr"]) == ("number", "identifier")


def test_columns_outside_a_schema_are_said() -> None:
    frame = visits().drop(columns=["codes", "patient_id"])
    narrow = by_type(frame).keep(("age",))
    assert "'town' (left out by the schema)" in notices(read(frame), narrow)[0]


def test_nothing_is_said_where_all_is_used() -> None:
    frame = visits()[["age", "town", "y"]]
    assert notices(read(frame), by_type(frame)) == []


def test_notices_of_typos_and_spellings_show_no_values() -> None:
    frame = visits()[["age", "town", "y"]].astype({"age": str, "town": str})
    frame.loc[3, "age"], frame.loc[4, "town"] = "fourtyfour", "ULM "
    schema = draft(read(frame), target="y")
    sentences = notices(read(frame), schema)
    assert "'age': 1 value is not a number and is treated as missing." in sentences
    assert "Case and blanks are ignored in 'town'." in sentences
    assert "fourty" not in " ".join(sentences)


def test_number_of_a_contact_is_not_used_and_a_contact_alone_is() -> None:
    frame = visits()[["age", "y"]].assign(phone_number=["same"] * ROWS, telephone=["yes", "no"] * (ROWS // 2))
    kinds = {column.name: column.kind for column in by_type(frame).columns}
    assert kinds == {"age": "number", "phone_number": "identifier", "telephone": "undecided"}


def test_classes_of_few_rows_are_said_without_their_names() -> None:
    frame = visits()[["age", "town", "y"]].astype({"y": str})
    frame.loc[3, "y"] = "yse"
    schema = replace(by_type(frame), reviewed=True)  # as where bounds are paid for
    (sentence,) = notices(read(frame), schema)
    assert notices(read(frame), replace(schema, assumed=())) == []  # declared
    assert sentence.startswith("'y': 1 of 3 classes has fewer than 5 rows. Classes are treated as public")
    assert "yse" not in sentence


def test_classes_that_differ_only_in_case_are_said() -> None:
    frame = visits()[["age", "town", "y"]].astype({"y": str})
    frame.loc[::2, "y"] = frame["y"][::2].str.upper()
    schema = replace(by_type(frame), reviewed=True)
    (sentence,) = notices(read(frame), schema)
    assert sentence.startswith("'y': some of the 4 classes differ only in case, blanks or digits")
    assert notices(read(frame), replace(schema, assumed=())) == []  # declared


@pytest.mark.parametrize(("labels", "count"), [(["0", "1", "1.0"], 1), (["0", "1", "2.0"], 0)])
def test_classes_that_are_one_number_are_said(labels: list[str], count: int) -> None:
    frame = visits()[["age"]].assign(y=(labels * ROWS)[:ROWS])
    sentences = notices(read(frame), replace(by_type(frame), reviewed=True))
    assert sum("differ only in case, blanks or digits that do not matter" in each for each in sentences) == count


@pytest.mark.parametrize(
    ("persons", "count"),
    [(["P1", "p1", "P2"], 1), (["5", "5.0", "6"], 1), (["P1", "9e999", "8e999"], 0), ([str(2**62), str(2**62 + 1)], 0)],
)
def test_persons_that_are_written_in_two_ways_are_said(persons: list[str], count: int) -> None:
    frame = visits()[["age", "y"]].assign(who=(persons * ROWS)[:ROWS])
    sentences = [each for each in notices(read(frame), by_type(frame, unit="who")) if "different persons" in each]
    assert len(sentences) == count
    assert all(each.startswith("'who': 1 of its values differ") for each in sentences)


def test_classes_of_few_images_are_said() -> None:
    labels = np.array(["cat"] * 20 + ["dgo"] + ["dog"] * 20)
    raw = Raw(images=np.zeros((41, 1, 4, 4), np.uint8), labels=labels)
    schema = replace(typed(raw, target="class"), reviewed=True)
    (sentence,) = notices(raw, schema)
    assert notices(raw, replace(schema, assumed=())) == []  # declared
    assert sentence.startswith("'class': 1 of 3 classes has fewer than 5 rows. Classes are treated as public")


def test_role_is_used_and_number_of_a_card_is_not() -> None:
    frame = visits()[["age", "y"]].assign(member=["yes", "no"] * (ROWS // 2), card_number=range(ROWS))
    kinds = {column.name: column.kind for column in by_type(frame).columns}
    assert kinds == {"age": "number", "member": "undecided", "card_number": "identifier"}


def test_numbers_with_several_units_are_said() -> None:
    frame = pd.DataFrame(
        {"weight": ["70 kg", "154 lb", "80 kg"] * 5, "size": ["1.8", "2", "3"] * 5, "y": ["a", "b", "c"] * 5}
    )
    raw = read(frame)
    said = [each for each in notices(raw, typed(raw, target="y")) if "without conversion" in each]
    assert said == ["'weight': numbers with the units kg, lb are read without conversion. Write them all in one unit."]


@pytest.mark.parametrize(("values", "count"), [([0, 1], 1), ([0, 1, 2], 0)])
def test_two_values_of_a_target_that_is_a_number_are_said(values: list[int], count: int) -> None:
    frame = pd.DataFrame({"age": range(30), "died": (values * 30)[:30]})
    declared = Schema(columns=(Column(name="age", low=0, high=30),), target="died", rows=30)
    assert sum("only two different values" in each for each in notices(read(frame), declared)) == count


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("note", [f"pain in limb {at}" for at in range(60)], "it is probably an identifier or free text"),
        ("order_id", list(range(60)), "by its name it is an identifier"),
        ("order_id", [f"A{at // 2}" for at in range(60)], "by its name it is an identifier"),
        ("price", [at / 7 for at in range(60)], ""),
        ("town", ["Ulm", "Bonn", "Köln"] * 20, ""),
        ("valid_id", ["yes", "no"] * 30, ""),
    ],
)
def test_target_that_identifies_rows_is_said(name: str, values: list[Any], said: str) -> None:
    frame = pd.DataFrame({"age": range(60), name: values})
    found = [each for each in notices(read(frame), typed(read(frame), target=name)) if "the target, has" in each]
    assert len(found) == bool(said)
    assert all(said in each for each in found)


def test_word_for_an_account_is_a_hint_if_many_values_repeat() -> None:
    frame = visits().assign(
        member=["yes", "no"] * (ROWS // 2),
        konto=[f"K{at // 3}" for at in range(ROWS)],
        account=[at // 4 for at in range(ROWS)],
        account_balance=[at // 4 for at in range(ROWS)],
        cuenta=[at // 2 + 0.5 for at in range(ROWS)],
        mitglied=[f"M{at}" for at in range(ROWS)],
    )
    schema = by_type(frame)
    assert repeated_identifiers(read(frame), schema, ["patient_id"]) == ["konto", "account"]
    assert person_columns(read(frame), schema, ["patient_id"]) == []


def test_numbers_too_large_for_estimated_bounds_are_said() -> None:
    frame = visits().assign(bytes=[10**14] * 2 + [1.0] * (ROWS - 2), never=np.inf)
    assert [each for each in notices(read(frame), by_type(frame)) if "1e+13" in each] == [
        "'bytes': 2 of its numbers are beyond 1e+13 or -1e+13, the farthest bounds that are estimated, and count as "
        "this bound. Divide the column by a constant, or declare its bounds (--schema)."
    ]
    target = pd.DataFrame({"age": range(30), "y": np.arange(30) * 1e14})
    assert any("29 of its numbers are beyond" in each for each in notices(read(target), Schema(target="y", rows=30)))


def test_constant_column_is_said_and_a_mark_beside_gaps_is_used() -> None:
    frame = visits().assign(always="x", never=None, marked=["True" if at % 3 else "" for at in range(ROWS)])
    sentences = notices(read(frame), by_type(frame))
    for name in ("always", "never"):
        assert any(each.startswith(f"'{name}' has the same value, or no value, in every row") for each in sentences)
    assert not any("marked" in sentence or "different value" in sentence for sentence in sentences)


def sheet(path: Path, *second: object) -> Raw:
    pytest.importorskip("openpyxl")
    rows: list[list[object]] = [[at, 2.5 * at, "a" if at % 2 else "b"] for at in range(30)]
    cells = pd.DataFrame([["height", "weight", "y"], *([list(second)] if second else []), *rows])
    cells.to_excel(path, header=False, index=False)
    return read(path)


def test_a_second_row_of_names_or_units_is_said_with_its_place(tmp_path: Path) -> None:
    raw = sheet(tmp_path / "units.xlsx", "cm", "kg", "a")
    (said,) = [each for each in notices(raw, typed(raw, target="y")) if "second row" in each]
    assert said.startswith("row 1 contains text in 2 columns whose other values are numbers. If it is a second row of ")
    for other in ((), ("unknown", 3.5, "a"), (None, None, "a")):
        raw = sheet(tmp_path / f"plain{len(other)}{other[0] if other else ''}.xlsx", *other)
        assert not any("second row" in each for each in notices(raw, typed(raw, target="y")))


def test_numeric_target_with_units_is_refused_with_the_fix(tmp_path: Path) -> None:
    rows = "".join(f"{at % 7},{1.5 * at}\n" for at in range(200))
    (tmp_path / "d.csv").write_text(f"size,price\ncm,EUR\n{rows}")
    for task in (None, "regression"):
        with pytest.raises(WrongInput, match=r"if the first row holds second names or units of the columns, remove it"):
            typed(read(tmp_path / "d.csv"), target="price", task=task)
    (tmp_path / "d.csv").write_text(f"size,price\n3,1.5\ncm,EUR\n{rows}")
    with pytest.raises(WrongInput, match="2 to 100 classes") as refused:
        typed(read(tmp_path / "d.csv"), target="price")
    assert "units" not in str(refused.value)


@pytest.mark.parametrize(("words", "said"), [(0, 0), (10, 0), (40, 1)])
def test_a_column_that_may_be_numbers_is_not_hardly_used(words: int, said: int) -> None:
    frame = pd.DataFrame({"crp": [*(f"{at / 8} mg/l" for at in range(100)), *(f"<0.{at}" for at in range(words))]})
    frame["y"] = ["no", "yes"] * (len(frame) // 2)
    sentences = notices(read(frame), by_type(frame))
    assert len(sentences) == said
    assert all(each.startswith("'crp': 29% of its values are not numbers. So it may be") for each in sentences)


def test_symbols_and_pairs_of_numbers_get_advice() -> None:
    frame = pd.DataFrame({"pressure": [f"{at}/80" for at in range(100)], "y": ["no", "yes"] * 50})
    [said] = notices(read(frame), by_type(frame))
    assert said.startswith("Hardly used: 'pressure'")
    assert "split two numbers such as 120/80 into two columns" in said


def test_skipped_files_of_a_folder_are_counted(tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        (tmp_path / "images" / label / "old").mkdir(parents=True)
        Image.new("L", (4, 4)).save(tmp_path / "images" / label / "1.png")
        (tmp_path / "images" / label / "notes.txt").write_text("not an image")
        (tmp_path / "texts" / label).mkdir(parents=True)
        (tmp_path / "texts" / label / "1.txt").write_text("a text")
        (tmp_path / "texts" / label / ".hidden").write_text("not counted")

    def said(folder: str) -> list[str]:
        raw = read(tmp_path / folder)
        return [each for each in notices(raw, draft(raw, target="class")) if "skipped" in each]

    because = "that are skipped, because they are no"
    assert said("images") == [f"Files and folders in 'images' {because} images in the sub-folder of a class: 4."]
    assert said("texts") == []
    (tmp_path / "texts" / "loose.txt").write_text("a text without a class")
    assert said("texts") == [f"Files and folders in 'texts' {because} texts in the sub-folder of a class: 1."]
