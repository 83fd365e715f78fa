"""Images that a column of a table names: read as a folder of images is, and never named in a message."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from privaware.data import Data, as_bytes, from_bytes, read, row_hashes, typed, with_images
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

KEY = bytes(range(32))
SCHEMA = Schema(
    columns=(Column(name="photo", kind="image"), Column(name="age", low=0, high=90)),
    target="y",
    classes=("n", "y"),
    rows=3,
    shape=(1, 4, 5),
)


def write_table(folder: Path, modes: tuple[str, ...] = ("L", "L", "L"), size: tuple[int, int] = (5, 4)) -> Path:
    """Write a table of three rows and its images, in a folder beside it; return the path of the table."""
    (folder / "scans").mkdir()
    for at, mode in enumerate(modes):
        Image.new(mode, size, 40 * at if mode == "L" else (40 * at,) * 3).save(folder / "scans" / f"secret{at}.png")
    names = [f"scans/secret{at}.png" for at in range(3)]
    table = pd.DataFrame({"photo": names, "age": [20, 30, 40], "y": ["n", "y", "n"]})
    table.to_csv(folder / "table.csv", index=False)
    return folder / "table.csv"


def test_images_are_found_beside_the_table(tmp_path: Path) -> None:
    rows = Data.of(read(write_table(tmp_path)), SCHEMA)
    found = from_bytes(rows.x[:, 0], SCHEMA.shape)
    assert found.shape == (3, 1, 4, 5)
    np.testing.assert_allclose(found[:, 0, 0, 0], np.array([0, 40, 80], np.float32) / 255)
    assert rows.x[:, 1].tolist() == [20.0, 30.0, 40.0]


def test_bytes_restore_the_pixels() -> None:
    images = np.random.default_rng(0).random((3, 3, 2, 4)).astype(np.float32)
    assert np.array_equal(from_bytes(as_bytes(images), (3, 2, 4)), images)


def test_shape_of_the_images_is_typed(tmp_path: Path) -> None:
    raw = with_images(read(write_table(tmp_path)), "photo")
    schema = typed(raw, target="y")
    assert (schema.shape, schema.columns[0].kind) == ((1, 4, 5), "image")


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        ("size", "expected images of one size, but the file in column 'photo', line 3 differs from most"),
        ("bytes", "expected the file in column 'photo', line 3 as an image: it is truncated, damaged"),
        ("gone", "the file in column 'photo', line 3 cannot be read: No such file"),
        ("name", "the file in column 'photo', line 3: expected the name of an image file"),
    ],
)
def test_wrong_file_is_refused_by_its_line(tmp_path: Path, damage: str, sentence: str) -> None:
    table, file = write_table(tmp_path), tmp_path / "scans" / "secret1.png"
    if damage == "size":
        Image.new("L", (6, 4)).save(file)
    elif damage == "bytes":
        file.write_bytes(b"no image")
    elif damage == "gone":
        file.unlink()
    else:
        table.write_text(table.read_text().replace("scans/secret1.png", ""))
    with pytest.raises(WrongInput, match=sentence) as refused:
        Data.of(read(table), SCHEMA)
    assert "secret" not in str(refused.value)


def test_grey_and_colour_need_a_declared_shape(tmp_path: Path) -> None:
    raw = with_images(read(write_table(tmp_path, ("L", "RGB", "L"))), "photo")
    with pytest.raises(WrongInput, match="line 3: expected all images in grey or all in colour"):
        typed(raw, target="y")
    assert len(Data.of(raw, SCHEMA)) == 3


def test_other_size_than_declared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match=r"expected images of shape \[1, 4, 5\], got \[1, 4, 7\]"):
        Data.of(read(write_table(tmp_path, size=(7, 4))), SCHEMA)


def test_pixels_not_names_identify_rows(tmp_path: Path) -> None:
    table = write_table(tmp_path)
    before = row_hashes(with_images(read(table), "photo"), KEY)
    (tmp_path / "scans" / "secret0.png").rename(tmp_path / "other.png")
    table.write_text(table.read_text().replace("scans/secret0.png", "other.png"))
    assert np.array_equal(row_hashes(with_images(read(table), "photo"), KEY), before)
    Image.new("L", (5, 4), 7).save(tmp_path / "other.png")
    after = row_hashes(with_images(read(table), "photo"), KEY)
    assert (after == before).tolist() == [False, True, True]


def test_rows_that_are_left_out_take_their_images_with_them(tmp_path: Path) -> None:
    raw = with_images(read(write_table(tmp_path)), "photo").take(np.array([2, 0]))
    found = from_bytes(Data.of(raw, SCHEMA).x[:, 0], SCHEMA.shape)
    np.testing.assert_allclose(found[:, 0, 0, 0], np.array([80, 0], np.float32) / 255)


def test_names_of_a_data_frame_are_relative_to_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.read_csv(write_table(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert len(Data.of(read(frame), SCHEMA)) == 3


def test_uncoded_rows_are_coded_without_reading_again(tmp_path: Path) -> None:
    table = write_table(tmp_path)
    open_schema = replace(SCHEMA, columns=(SCHEMA.columns[0], Column(name="age")))
    rows = Data.uncoded(read(table), open_schema)
    (tmp_path / "scans" / "secret0.png").unlink()
    assert isinstance(rows.coded_by(SCHEMA).x[0, 0], bytes)


def test_folder_of_another_kind_or_size_is_named(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "b.txt").write_text("good")
    texts = Schema(columns=(Column(name="text", kind="text"),), form="text", classes=("a", "b"), rows=10)
    images = Schema(form="image", shape=(1, 4, 5), classes=("a", "b"), rows=10)
    with pytest.raises(WrongInput, match=r"expected images .*, got a folder of texts; give a folder of images"):
        Data.of(read(tmp_path / "texts"), images, labelled=False)
    (tmp_path / "images").mkdir()
    Image.fromarray(np.zeros((6, 7), np.uint8)).save(tmp_path / "images" / "n.png")
    with pytest.raises(WrongInput, match=r"expected a folder of texts or a table, .*, got a folder of images"):
        Data.of(read(tmp_path / "images"), texts, labelled=False)
    with pytest.raises(WrongInput, match=r"shape \[1, 4, 5\], got \[1, 6, 7\] in 'n.png'; scale the images to 5 x 4"):
        Data.of(read(tmp_path / "images"), images, labelled=False)
