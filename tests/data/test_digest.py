"""The same rows have the same digest, whatever their order and format; other rows and other keys have another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privaware.data import Raw, array_hashes, read, row_hashes, rows_digest

KEY = bytes(range(32))
ROWS = 200


def people() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": draw.integers(18, 90, ROWS),
            "score": np.where(draw.random(ROWS) < 0.1, np.nan, draw.normal(size=ROWS)),
            "town": draw.choice(["Ulm", "Bonn", "Kiel"], ROWS),
            "member": draw.random(ROWS) < 0.5,
            "born": pd.date_range("1950-01-01", periods=ROWS),
        }
    )


def digest(source: object, key: bytes = KEY) -> str:
    return rows_digest(row_hashes(read(source), key), key)


def test_order_format_and_types_do_not_matter(tmp_path: Path) -> None:
    frame = people()
    frame.to_csv(tmp_path / "people.csv", index=False)
    frame.sample(frac=1, random_state=1).to_parquet(tmp_path / "people.parquet")
    (tmp_path / "link.csv").symlink_to(tmp_path / "people.csv")
    same = [
        tmp_path / "people.csv",
        tmp_path / "people.parquet",
        tmp_path / "link.csv",
        frame[::-1],
        frame[list(frame.columns)[::-1]],
        frame.astype({"score": np.float32, "age": float, "town": "category"}),
        frame.astype(object),
    ]
    assert {digest(source) for source in same} == {digest(frame)}


@pytest.mark.parametrize("column", ["age", "score", "town", "member", "born"])
def test_one_changed_cell_is_another_data_set(column: str) -> None:
    frame = people().astype(object)
    changed = frame.copy()
    changed.loc[7, column] = {"town": "Trier", "born": "1900-01-01"}.get(column, 17)
    assert digest(changed) != digest(frame)


def test_changed_rows_have_another_digest() -> None:
    frame = people()
    swapped = frame.assign(age=frame["age"].to_numpy()[::-1])
    others = [frame[1:], pd.concat([frame, frame[:1]]), swapped, frame.rename(columns={"age": "years"})]
    assert len({digest(source) for source in (frame, *others)}) == 5


def test_digest_tells_nothing_without_the_key() -> None:
    frame = people()
    assert digest(frame, bytes(32)) != digest(frame)
    assert not set(row_hashes(Raw(frame=frame), bytes(32))) & set(row_hashes(Raw(frame=frame), KEY))


def test_equal_rows_have_equal_hashes_and_others_do_not() -> None:
    grid = np.array(np.meshgrid(np.arange(100), np.arange(100), [0.0, 0.25])).reshape(3, -1).T
    hashes = row_hashes(Raw(frame=pd.DataFrame(grid, columns=list("abc"))), KEY)
    assert len(np.unique(hashes)) == len(grid)
    twice = row_hashes(Raw(frame=pd.DataFrame(np.vstack([grid, -grid, grid]), columns=list("abc"))), KEY)
    assert np.array_equal(twice[: len(grid)], twice[-len(grid) :])


def test_images_count_with_their_labels() -> None:
    draw = np.random.default_rng(0)
    images = draw.integers(0, 255, size=(20, 1, 4, 4), dtype=np.uint8)
    labels = np.arange(20) % 3
    hashes = row_hashes(Raw(images=images, labels=labels), KEY)
    text = row_hashes(Raw(images=images, labels=labels.astype(str)), KEY)
    assert np.array_equal(hashes, text)
    assert not np.array_equal(hashes, row_hashes(Raw(images=images, labels=labels[::-1]), KEY))
    assert len(set(array_hashes({"x": np.zeros((20, 2, 2)), "y": labels}, KEY))) == 3


def test_money_is_hashed_as_text_as_it_always_was() -> None:
    money, number = (read(pd.DataFrame({"fee": [fee]})) for fee in ("12%", 12))
    key = b"k" * 32
    assert row_hashes(money, key) != row_hashes(number, key)
