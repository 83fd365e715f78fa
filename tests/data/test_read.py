"""Files, folders and data frames are read as they are, or refused in one sentence."""

from __future__ import annotations

import decimal
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from privaware.data import Data, draft, labelled, read, show_values, typed, words_of
from privaware.errors import WrongInput
from privaware.schema import Schema

FIELDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=12)


def table_of(tmp_path: Path, content: bytes, name: str = "data.csv") -> pd.DataFrame:
    path = tmp_path / name
    path.write_bytes(content)
    frame = read(path).frame
    assert frame is not None
    return frame


def columns_of(frame: pd.DataFrame) -> dict[str, list[Any]]:
    return {str(name): values.tolist() for name, values in frame.items()}


def words_in(frame: pd.DataFrame) -> dict[str, list[str]]:
    return {str(name): words_of(values).map(str, object).tolist() for name, values in frame.items()}


@pytest.mark.parametrize(
    "content",
    [
        b"a,b\n1,x\n2,y\n",
        b"\xef\xbb\xbfa,b\r\n1,x\r\n2,y\r\n",
        b'"a","b"\n"1","x"\n"2","y"',
        b" a , b \n1,x\n\n2,y\n\n",
        b'a, "b"\n1, "x"\n2, "y"\n',
    ],
)
def test_csv_dialects_read_as_the_same_table(tmp_path: Path, content: bytes) -> None:
    assert words_in(table_of(tmp_path, content)) == {"a": ["1", "2"], "b": ["x", "y"]}


def test_tabs_separate_in_tsv_and_txt(tmp_path: Path) -> None:
    for name in ("data.tsv", "data.txt"):
        frame = table_of(tmp_path, b'a\tb\nsaid, "yes"\tx\n', name)
        assert columns_of(frame) == {"a": ['said, "yes"'], "b": ["x"]}


def test_quoted_fields_may_hold_separators_line_ends_and_quotes(tmp_path: Path) -> None:
    frame = table_of(tmp_path, b'a,"b\nc"\n"x, y","say ""hi""\nthere"\n"p, ",""\n')
    assert list(frame.columns) == ["a", "b\nc"]
    assert [word.strip() for word in frame["a"]] == ["x, y", "p,"]
    assert frame["b\nc"].tolist() == ['say "hi"\nthere', ""]


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_csv_round_trips_through_the_csv_module(tmp_path_factory: Any, data: st.DataObject) -> None:
    import csv

    width = data.draw(st.integers(1, 4))
    names = data.draw(st.lists(FIELDS.map(str.strip).filter(bool), min_size=width, max_size=width, unique=True))
    rows = data.draw(st.lists(st.lists(FIELDS, min_size=width, max_size=width), max_size=5))
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([names, *rows])
    frame = read(path, header=True).frame  # a name may be a number
    assert frame is not None
    assert list(frame.columns) == names
    read_back = [list(row) for row in zip(*words_in(frame).values(), strict=True)]
    assert read_back == [[word.strip() for word in row] for row in rows]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "an empty file"),
        (b"\n\n", "an empty file"),
        (b"a,b\n1\n", "line 2: expected 2 fields, got 1; correct the line$"),
        (b"a,b\n1,2\n1,2,3\n", "line 3: expected 2 fields, got 3; correct the line$"),
        (b"a,a\n1,2\n", "distinct column names .* the same for columns 1 and 2; rename one of them$"),
        (b"a,b\n1,\0\n", "NUL bytes"),
        (b"a,b\n1,\xe9\n", "line 2: expected UTF-8"),
        (b'a,b\n1,"2\n3,4\n', "never closed"),
        (b'a,b\n1,"2', "never closed"),
        (b'a,b\n"1,2\n3,4\n', "line 2: a quotation mark is opened and never closed"),
    ],
)
def test_malformed_csv_is_refused_naming_the_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(WrongInput, match=message) as caught:
        table_of(tmp_path, content)
    assert "data.csv" in str(caught.value)


def test_field_of_five_megabytes_is_read(tmp_path: Path) -> None:
    frame = table_of(tmp_path, b"a,b\n" + b"x" * 5_000_000 + b",1\n2,3\n")
    assert [len(word) for word in frame["a"]] == [5_000_000, 1]


@pytest.mark.parametrize(
    "name", ["[columns]", 'qu"ote', "new\nline", "😀", "x" * 3000, "a.b", "=1+1", "\\", "#", "None", "y y"]
)
def test_hostile_column_names_survive_draft_and_toml(tmp_path: Path, name: str) -> None:
    path = tmp_path / "data.csv"
    pd.DataFrame({name: range(30), "y": ["n", "p"] * 15}).assign(**{name: np.arange(30) * 2.5}).to_csv(
        path, index=False
    )
    schema = draft(read(path), target="y")
    again = Schema.parse(schema.toml())
    assert again == schema
    assert Data.of(read(path), again).x[:, 0].tolist() == (np.arange(30) * 2.5).tolist()


def test_parquet_reads_every_scalar_type(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pd.DataFrame(
        {
            "nullable": pd.Series([1, None, 3], dtype="Int64"),
            "when": pd.to_datetime(["2020-01-01", None, "2020-01-03"]),
            "kind": pd.Series(["a", "b", None], dtype="category"),
            "money": [decimal.Decimal("1.50"), None, decimal.Decimal("2.25")],
            "raw": [b"ab", b"cd", None],
            "nested": [[1], [2], [3]],
            "y": [0, 1, 0],
        }
    ).to_parquet(path)
    schema = draft(read(path), target="y")
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {
        "nullable": "number",
        "when": "date",
        "kind": "category",
        "money": "number",
        "raw": "category",
        "nested": "ignore",
    }
    data = Data.of(read(path), schema)
    money = [column.name for column in schema.used].index("money")
    assert data.x[[0, 2], money].tolist() == [1.5, 2.25]
    assert np.isnan(data.x[1, 0])


def test_named_index_of_parquet_is_a_column(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["p", "q"], name="who"))
    frame.to_parquet(tmp_path / "data.parquet")
    assert columns_of(read(tmp_path / "data.parquet").frame) == {"who": ["p", "q"], "a": [1, 2]}


def test_npz_holds_tables_images_and_test_parts(tmp_path: Path) -> None:
    path, x, y = tmp_path / "data.npz", np.arange(6.0).reshape(3, 2), np.array([0, 1, 1])
    np.savez(path, x=x, y=y, x_test=x[:1], y_test=y[:1])
    raw = read(path)
    assert columns_of(raw.frame) == {"x0": [0, 2, 4], "x1": [1, 3, 5], "y": [0, 1, 1]}
    assert raw.test is not None
    assert len(raw.test) == 1
    for shape in ((3, 5, 7), (3, 5, 7, 1), (3, 1, 5, 7)):
        np.savez(path, x=np.zeros(shape, dtype=np.uint8), y=y)
        images = read(path).images
        assert images is not None
        assert images.shape == (3, 1, 5, 7)


def test_npz_labels_of_any_scalar_dtype_are_classes(tmp_path: Path) -> None:
    for labels in (np.array([1, 0]), np.array([1.0, 0.0]), np.array(["1", "0"]), np.array([b"1", b"0"])):
        np.savez(tmp_path / "data.npz", x=np.zeros((2, 4, 4)), y=labels)
        raw = read(tmp_path / "data.npz")
        schema = draft(raw, target="label")
        assert schema.classes == ("0", "1")
        assert Data.of(raw, schema).y.tolist() == [1, 0]


def save(path: Path, array: np.ndarray, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path, **options)


def test_folder_of_images_gives_one_class_a_subfolder(tmp_path: Path) -> None:
    grey = np.arange(16, dtype=np.uint8).reshape(4, 4)
    save(tmp_path / "cat" / "1.png", grey)
    save(tmp_path / "dog" / "1.png", grey + 9)
    (tmp_path / "dog" / "notes.txt").write_text("not an image")
    (tmp_path / "readme.md").write_text("not a class")
    raw = read(tmp_path)
    schema = draft(raw, target="animal")
    assert (schema.classes, schema.shape) == (("cat", "dog"), (1, 4, 4))
    data = Data.of(raw, schema)
    assert np.allclose(data.x[1, 0], (grey + 9.0) / 255)
    assert data.y.tolist() == [0, 1]


def test_folder_of_a_damaged_image_is_shown_to_its_owner_only(tmp_path: Path) -> None:
    """The name of the folder is the class of the image."""
    grey = np.full((4, 4), 100, dtype=np.uint8)
    for name in ("cat/1.png", "dog/1.png"):
        save(tmp_path / name, grey)
    for content in (None, b"junk"):
        save(tmp_path / "dog" / "2.png", grey[:3])
        if content is not None:
            (tmp_path / "dog" / "2.png").write_bytes(content)
        with pytest.raises(WrongInput, match=r"(?<!dog/)2\.png"):
            read(tmp_path)
        with show_values(), pytest.raises(WrongInput, match=r"'dog/2\.png'"):
            read(tmp_path)


def test_one_colour_image_among_grey_ones_is_no_public_fact(tmp_path: Path) -> None:
    """It would give every image, and the released network, three channels."""
    grey = np.full((4, 4), 100, dtype=np.uint8)
    for name in ("a/1.png", "a/2.png", "b/1.png"):
        save(tmp_path / name, grey)
    assert typed(read(tmp_path), target="class").shape == (1, 4, 4)
    save(tmp_path / "b" / "2.png", np.dstack([grey] * 3))
    with pytest.raises(WrongInput, match=r"'2.png': expected all images in grey or all in colour"):
        typed(read(tmp_path), target="class")
    declared = Schema(form="image", shape=(1, 4, 4), classes=("a", "b"), target="class", rows=4)
    assert Data.of(read(tmp_path), declared).x.shape == (4, 1, 4, 4)
    assert draft(read(tmp_path), target="class").shape == (3, 4, 4)


def test_one_colour_image_makes_all_images_colour(tmp_path: Path) -> None:
    grey = np.full((4, 4), 100, dtype=np.uint8)
    save(tmp_path / "a" / "1.png", grey)
    save(tmp_path / "b" / "1.png", np.dstack([grey, grey, grey, grey]))
    deep = np.full((4, 4), 100 * 256 + 7, dtype=np.uint16)
    save(tmp_path / "b" / "2.png", deep)
    frames = [Image.fromarray(grey).convert("P"), Image.fromarray(grey + 50).convert("P")]
    frames[0].save(tmp_path / "b" / "3.png", save_all=True, append_images=frames[1:], transparency=b"\0")
    images = read(tmp_path).images
    assert images is not None
    assert images.shape == (4, 3, 4, 4)
    assert set(images.ravel().tolist()) == {100}


def test_images_of_different_sizes_are_refused_naming_the_file(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.png", np.zeros((4, 4), dtype=np.uint8))
    save(tmp_path / "b" / "odd.png", np.zeros((4, 5), dtype=np.uint8))
    with pytest.raises(WrongInput, match=r"'odd.png' differs from most; resize"):
        read(tmp_path)


def test_data_frame_column_labels_become_distinct_names(tmp_path: Path) -> None:
    assert columns_of(read(pd.DataFrame([[1, 2]], columns=[0, "a"])).frame) == {"0": [1], "a": [2]}
    with pytest.raises(WrongInput, match="distinct column names"):
        read(pd.DataFrame([[1, 2]], columns=[1, "1"]))
    with pytest.raises(WrongInput, match="one level of column names"):
        read(pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])))
    with pytest.raises(WrongInput, match="none for column 1"):
        read(pd.DataFrame([[1]], columns=[""]))


@pytest.mark.parametrize(
    "source", [None, 3, b"data.csv", ["data.csv"], {"a": 1}, np.zeros(3), "", "a\0b.csv", "no.csv"]
)
def test_source_that_is_not_data_is_refused(source: object) -> None:
    with pytest.raises(WrongInput, match="expected"):
        read(source)


def test_unreadable_file_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes(b"a\n1\n")

    def refuse(*_: object, **__: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(WrongInput, match=r"cannot read 'data.csv': Permission denied"):
        read(path)


def test_file_larger_than_memory_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((2, 2)), y=np.zeros(2))

    def refuse(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(np, "load", refuse)
    with pytest.raises(WrongInput, match="does not fit into this machine's memory"):
        read(tmp_path / "data.npz")


@pytest.mark.parametrize("column", [pd.Series([1.5, "secret"]), pd.Series([1, 2]), pl.Series(["secret"])])
def test_a_single_column_is_no_table(column: object) -> None:
    with pytest.raises(WrongInput, match="or a data frame, got Series; give a DataFrame"):
        read(column)


def test_a_title_above_the_names_of_a_sheet_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    cells = pd.DataFrame([["Report", None], ["a", "y"], [1, "yes"]])
    cells.to_excel(tmp_path / "t.xlsx", header=False, index=False)
    with pytest.raises(WrongInput, match="only its first cell is filled; remove titles above the names") as problem:
        read(tmp_path / "t.xlsx")
    assert "Report" not in str(problem.value)


def test_images_without_classes_lie_side_by_side(tmp_path: Path) -> None:
    for name in ("b.png", "a.tif", "c.gif"):
        Image.fromarray(np.full((4, 4), ord(name[0]), np.uint8)).save(tmp_path / name)
    raw = read(tmp_path)
    assert raw.images is not None
    assert raw.images[:, 0, 0, 0].tolist() == [ord("a"), ord("b"), ord("c")]
    with pytest.raises(WrongInput, match="store them as array y, or in one sub-folder for each class"):
        draft(raw, target="class")


def test_texts_without_classes_are_not_learned_from(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt"):
        (tmp_path / name).write_text(name)
    raw = read(tmp_path)
    assert (columns_of(raw.frame), raw.files) == ({"text": ["a.txt", "b.txt"]}, ("a.txt", "b.txt"))
    with pytest.raises(WrongInput, match="labels of the texts, got none; store them in one sub-folder for each class"):
        draft(raw, target="class")


@pytest.mark.parametrize(("other", "message"), [("old/1.txt", "'old' is a folder"), ("n.md", "'n.md' is another")])
def test_folder_of_texts_with_anything_else_names_it(tmp_path: Path, other: str, message: str) -> None:
    for name in ("bad/1.txt", "good/1.txt", f"good/{other}"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a text")
    with pytest.raises(WrongInput, match=r"expected only text files \(\.txt\) in the sub-folders .*, but " + message):
        read(tmp_path)
    with show_values(), pytest.raises(WrongInput, match=f"'good/{other.split('/')[0]}' is "):
        read(tmp_path)


@pytest.mark.parametrize(
    ("nested", "message"),
    [
        (("dog/old/1.png",), "but 1 folder further down has images, the first in 'old'; move"),
        (("cat/a/1.png", "dog/old/b/1.png", "dog/old/2.png"), "but 3 folders further down have images"),
    ],
)
def test_images_in_nested_folders_are_refused_with_a_count(
    tmp_path: Path, nested: tuple[str, ...], message: str
) -> None:
    for name in ("cat/1.png", "dog/1.png", *nested):
        save(tmp_path / name, np.zeros((4, 4), dtype=np.uint8))
    (tmp_path / "dog" / "empty").mkdir()
    with pytest.raises(WrongInput, match=message) as problem:
        read(tmp_path)
    assert not re.search("cat|dog", str(problem.value))
    with show_values(), pytest.raises(WrongInput, match=r"the first in '(dog/old|cat/a)'"):
        read(tmp_path)


def test_folder_of_tables_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(WrongInput, match=r"got none; to read a table, name its file$"):
        read(tmp_path)


def test_folders_of_images_and_of_texts_do_not_mix(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.png", np.zeros((4, 4), dtype=np.uint8))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "1.txt").write_text("a text")
    with pytest.raises(WrongInput, match="got both: some sub-folders have images, and others have text files"):
        read(tmp_path)


def test_texts_of_a_folder_may_have_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.txt").write_text("schön", encoding="latin-1")
    with pytest.raises(WrongInput, match=r"'1.txt': expected UTF-8, got other bytes; name another encoding with"):
        read(tmp_path)
    with pytest.raises(WrongInput, match="expected encoding= such as utf-8 or latin-1, got 'foo'"):
        read(tmp_path, encoding="foo")
    frame = read(tmp_path, encoding="latin-1").frame
    assert frame is not None
    assert frame["text"].tolist() == ["schön"]


def test_rows_that_are_left_out_take_their_file_names_along(tmp_path: Path) -> None:
    for name in ("a", "none"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.txt").write_text("a text")
    assert labelled(read(tmp_path), "class").files == ("a/1.txt",)


def test_an_image_of_floats_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    Image.fromarray(np.full((4, 4), 0.5, np.float32)).save(tmp_path / "cat" / "a.tiff")
    with pytest.raises(WrongInput, match=r"expected 'a.tiff' with 8 or 16 bits a pixel, got floats"):
        read(tmp_path)


@pytest.mark.parametrize("turn", range(1, 9))
def test_a_photograph_is_turned_as_it_was_held(tmp_path: Path, turn: int) -> None:
    upright = np.repeat(np.repeat(np.array([[0, 80], [160, 240], [40, 200]], np.uint8), 16, axis=0), 16, axis=1)
    undo = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.T,
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].T,
        8: np.rot90(upright, -1),
    }
    exif = Image.Exif()
    exif[0x0112] = turn
    Image.fromarray(np.ascontiguousarray(undo[turn])).save(tmp_path / "a.jpg", exif=exif, quality=95)
    images = read(tmp_path).images
    assert images is not None
    assert images.shape == (1, 1, 48, 32)
    assert np.abs(images[0, 0, 8::16, 8::16].astype(int) - upright[8::16, 8::16]).max() < 8


def test_most_frequent_size_of_images_is_the_expected_one(tmp_path: Path) -> None:
    for name, width in (("0.png", 9), ("1.png", 4), ("2.png", 4)):
        save(tmp_path / name, np.zeros((4, width), dtype=np.uint8))
    with pytest.raises(WrongInput, match=r"'0.png' differs from most; resize"):
        read(tmp_path)


def test_single_image_is_refused_with_advice_for_a_folder(tmp_path: Path) -> None:
    save(tmp_path / "x.png", np.zeros((4, 4), dtype=np.uint8))
    with pytest.raises(WrongInput, match=r"got the single image 'x.png'; put it into a folder"):
        read(tmp_path / "x.png")
