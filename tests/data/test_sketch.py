"""Most rows of a table are known again with other columns; other people of the same population are not."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from privaware.data import Raw, Sketch, hashes_and_sketch, row_hashes

KEY = bytes(range(32))
ROWS = 1500

Change = Callable[[pd.DataFrame], pd.DataFrame]


def people(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    """Two columns of measurements among common ones, and a running number."""
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": np.arange(1, rows + 1),
            "age": draw.integers(18, 91, rows),
            "height": draw.normal(170, 10, rows),
            "income": draw.lognormal(10, 1, rows),
            "town": draw.choice(["Ulm", "Bonn", "Kiel"], rows),
            "member": draw.choice(["no", "yes"], rows, p=[0.9, 0.1]),
        }
    )


def answers(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    """Questions with five answers: only many of them together tell people apart."""
    draw = np.random.default_rng(seed)
    return pd.DataFrame(draw.integers(1, 6, size=(rows, 12)), columns=[f"q{at}" for at in range(12)])


def sketch(frame: pd.DataFrame) -> Sketch:
    finished = hashes_and_sketch(Raw(frame=frame), KEY)[1].finished()
    return Sketch.from_bytes(finished.to_bytes())


def resembles(left: pd.DataFrame, right: pd.DataFrame) -> bool:
    one, two = sketch(left), sketch(right)
    assert one.resembles(two) == two.resembles(one)
    return one.resembles(two)


CHANGES: dict[str, Change] = {
    "a column dropped": lambda frame: frame.drop(columns=frame.columns[3]),
    "a column added": lambda frame: frame.assign(new=np.arange(len(frame)) % 7),
    "a column renamed": lambda frame: frame.rename(columns={frame.columns[3]: "other"}),
    "a column rescaled": lambda frame: frame.assign(**{frame.columns[1]: frame[frame.columns[1]] * 2.0 + 1}),
    "all columns renamed": lambda frame: frame.set_axis([f"c{at}" for at in range(frame.shape[1])], axis=1),
    "a few rows less": lambda frame: frame[40:],
    "a few rows more": lambda frame: pd.concat([frame, frame[:40] + frame[:40]]),
    "half of the rows": lambda frame: frame[::2],
    "shuffled, a column and rows less": lambda frame: frame.drop(columns=frame.columns[4])[100:].sample(frac=1),
}


@pytest.mark.parametrize("table", [people, answers])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_p49_most_of_a_table_is_known_again(table: Callable[[], pd.DataFrame], change: Change) -> None:
    assert resembles(table(), change(table()))


def test_two_columns_of_measurements_are_enough() -> None:
    frame = people()
    few = frame[["income", "height"]].set_axis(["a", "b"], axis=1).assign(more=1, still_more="x")
    assert resembles(frame, few)


def census(seed: int) -> pd.DataFrame:
    """Ages and hours: columns whose values repeat, so that no row has a value of its own."""
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {"age": draw.integers(18, 90, 900), "hours": draw.integers(1, 80, 900), "well": draw.random(900) < 0.4}
    )


@pytest.mark.parametrize("kept", [["age", "well"], ["hours"], ["well", "age"]])
def test_p49_columns_of_few_values_are_known_again(kept: list[str]) -> None:
    shuffled = census(0)[kept].sample(frac=1, random_state=3)
    assert resembles(census(0), shuffled.rename(columns={"age": "years"}))
    assert not resembles(census(0), census(1)[kept])


def arrests(seed: int = 0, rows: int = 3000) -> pd.DataFrame:
    """Rows of which about half are unique, and no column of more than 50 values."""
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": np.arange(1, rows + 1),
            "year": draw.integers(1997, 2003, rows),
            "age": 15 + np.minimum(draw.exponential(9, rows), 49).astype(int),
            "checks": draw.binomial(6, 0.3, rows),
            "citizen": draw.random(rows) < 0.8,
            "released": draw.random(rows) < 0.7,
        }
    )


def test_p49_column_of_50_values_is_known_again_in_a_large_table() -> None:
    assert resembles(arrests(), arrests()[["age", "released"]])
    assert not resembles(arrests(0), arrests(1)[["age", "released"]])


@pytest.mark.parametrize("change", ["a column dropped", "a column renamed", "a few rows less", "all columns renamed"])
def test_p49_half_unique_rows_are_known_again_by_them(change: str) -> None:
    changed = CHANGES[change](arrests())[30:]  # without these rows no column has the same values
    assert resembles(arrests(), changed)


@pytest.mark.parametrize("rows", [500, 3000, 20_000])
def test_other_people_with_half_unique_rows_are_strangers(rows: int) -> None:
    first = sketch(arrests(0))
    assert not any(first.resembles(sketch(arrests(seed, rows))) for seed in range(1, 6))


def test_columns_of_a_list_or_a_panel_make_no_table_known() -> None:
    states = [f"state {at}" for at in range(50)]
    one, other = (pd.DataFrame({"state": states * 6, "x": np.random.default_rng(at).normal(size=300)}) for at in (0, 1))
    assert not resembles(one, other)


@pytest.mark.parametrize("table", [people, answers])
def test_other_people_of_one_population_are_strangers(table: Callable[..., pd.DataFrame]) -> None:
    assert not resembles(table(seed=0), table(seed=1))
    assert not resembles(table(seed=0, rows=400), table(seed=1, rows=20_000))


@pytest.mark.parametrize("table", [people, answers])
def test_parts_of_one_table_with_other_rows_are_strangers(table: Callable[..., pd.DataFrame]) -> None:
    frame = table(rows=3000).sample(frac=1, random_state=1)
    assert not resembles(frame[:2000], frame[2000:])


def test_common_columns_alone_make_no_table_known() -> None:
    columns = ["id", "age", "town", "member"]
    for rows in (30, 300, 3000):
        assert not resembles(people(seed=0, rows=rows)[columns], people(seed=1, rows=rows)[columns])


@pytest.mark.parametrize("kept", [["id"], ["id", "member"], ["day", "member"], ["day", "id", "town"]])
def test_running_numbers_and_days_make_no_table_known(kept: list[str]) -> None:
    first, second = (people(seed=seed).assign(day=pd.date_range("2020-01-01", periods=ROWS)) for seed in (0, 1))
    assert not resembles(first[kept], second[kept])
    assert not resembles(first[kept].astype(str), second[kept].astype(str).sample(frac=1))


def test_range_beyond_the_largest_float_raises_no_warning() -> None:
    wide = np.where(np.arange(ROWS) % 2, 1.0, -1.0) * 1.7e308
    assert resembles(people().assign(wide=wide), people().assign(wide=wide))


def test_a_later_year_with_new_people_is_a_stranger() -> None:
    earlier, later = people(rows=2000), people(seed=5, rows=2000)
    both = pd.concat([earlier[:600], later[600:]])  # less than a third stayed
    assert not resembles(earlier, both)


def test_one_column_that_many_tables_have_makes_none_known() -> None:
    prices = np.random.default_rng(9).normal(size=ROWS)
    assert not resembles(people(seed=0).assign(price=prices), people(seed=1).assign(price=prices))


def test_parts_in_any_order_have_the_sketch_of_the_whole() -> None:
    frame = people(rows=5000)
    whole = hashes_and_sketch(Raw(frame=frame), KEY, running=frozenset({"id"}))[1]
    parts = [
        hashes_and_sketch(Raw(frame=frame[at : at + 700]), KEY, running=frozenset({"id"}))[1]
        for at in range(0, 5000, 700)
    ]
    merged = parts[3]
    for part in parts[:3] + parts[4:]:
        merged = merged.merge(part)
    for name, sample in whole.columns.items():
        bound = min(sample.bound, merged.columns[name].bound)
        assert np.array_equal(sample.below(bound).hashes, merged.columns[name].below(bound).hashes)
    assert whole.finished().resembles(merged.finished())


def test_images_are_known_with_other_labels() -> None:
    images = np.random.default_rng(0).integers(0, 255, size=(300, 1, 4, 4), dtype=np.uint8)
    first, second = (
        hashes_and_sketch(Raw(images=images[:count], labels=np.arange(count) % classes), KEY)[1].finished()
        for count, classes in ((300, 2), (250, 3))
    )
    assert first.resembles(second)


def test_hashes_are_those_of_the_digest() -> None:
    raw = Raw(frame=people())
    assert np.array_equal(hashes_and_sketch(raw, KEY)[0], row_hashes(raw, KEY))


def test_sketch_is_small_holds_no_name_and_needs_its_key() -> None:
    frame = people(rows=20_000)
    content = sketch(frame).to_bytes()
    assert len(content) < 40_000
    assert not any(name.encode() in content for name in frame.columns)
    other = hashes_and_sketch(Raw(frame=frame), bytes(32))[1].finished()
    assert not sketch(frame).resembles(other)


@pytest.mark.parametrize("content", [b"", b"torn", Sketch().to_bytes()[:-9]])
def test_damaged_sketch_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a sketch"):
        Sketch.from_bytes(content)


def test_tiny_and_empty_tables_are_no_trouble() -> None:
    for frame in (people(rows=1), people(rows=0), pd.DataFrame(index=range(3))):
        assert not resembles(frame, frame)


@pytest.mark.slow
def test_sketch_costs_little_of_the_time_to_read_a_table(tmp_path) -> None:
    from privaware.data import read

    people(rows=300_000).to_csv(tmp_path / "people.csv", index=False)
    began = time.process_time()
    raw = read(tmp_path / "people.csv")
    reading = time.process_time() - began
    began = time.process_time()
    row_hashes(raw, KEY)
    digest = time.process_time() - began
    began = time.process_time()
    hashes_and_sketch(raw, KEY)
    assert time.process_time() - began - digest < 0.15 * reading
