"""The card is written and read in one format, and whatever is wrong with a file is refused in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privaware.card import ModelCard
from privaware.errors import WrongInput
from tests.report.pages import card_entries, page

FORMAT_1 = Path(__file__).parent / "workflow" / "format_1"
"""A model folder written by version 0.1.0."""


def test_format_1_is_written_byte_by_byte() -> None:
    assert ModelCard.read(FORMAT_1).content() == (FORMAT_1 / "model.json").read_bytes()


def test_search_entries_survive_reading_and_writing() -> None:
    entries = card_entries() | {"search": {"point": {"lr": 1.0}, "workflow": "aware"}}
    assert ModelCard.from_json(entries).json()["search"] == entries["search"]
    assert "search" not in ModelCard.from_json(card_entries()).json()


def test_unknown_entries_are_left_out() -> None:
    entries = card_entries() | {"internal": {"test_score": 0.9}}
    assert "internal" not in ModelCard.from_json(entries).json()


def keys(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where each entry that the format promises stands; free-form ones need not be there."""
    inner = {"guarantee", "ledger"}
    paths = []
    for name, item in value.items():
        if (*path, name) not in {("ledger", "run"), ("guarantee", "accountants", name)}:
            paths.append((*path, name))
        if name in inner:
            paths += keys(item, (*path, name))
    return paths


@pytest.mark.parametrize("where", keys(card_entries()), ids=lambda path: ".".join(path))
def test_missing_entry_is_refused_by_name(where: tuple[str, ...]) -> None:
    entries = card_entries()
    inner = entries
    for name in where[:-1]:
        inner = inner[name]
    del inner[where[-1]]
    with pytest.raises(WrongInput, match=where[-1]) as caught:
        page(entries)
    assert "\n" not in str(caught.value)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


PLACES = [
    *((*path,) for path in keys(card_entries())),
    ("guarantee", "accountants", "pld"),
    ("events", 0, "event"),
    ("events", 0, "event", "kind"),
    ("events", 0, "event", "noise"),
    ("events", 1, "event", "count"),
    ("events", 1, "event", "event"),
    ("events", 0, "epsilon"),
    ("schema", "columns"),
    ("schema", "columns", 0, "low"),
    ("schema", "columns", 0, "bins"),
    ("schema", "columns", 1, "categories"),
    ("schema", "shape"),
    ("schema", "rows"),
    ("schema", "low"),
]


@given(st.sampled_from(PLACES), JUNK)
@example(("events", 0, "event", "noise"), 10**400)
@example(("guarantee", "epsilon"), 10**400)
@example(("guarantee", "epsilon"), float("nan"))
@settings(max_examples=150, deadline=None)
def test_junk_anywhere_gives_a_page_or_one_sentence(where: tuple[Any, ...], junk: Any) -> None:
    entries = card_entries()
    inner: Any = entries
    for name in where[:-1]:
        inner = inner[name]
    inner[where[-1]] = junk
    try:
        answer = page(entries)[-8:].strip()
    except WrongInput as problem:
        answer = str(problem)
    assert answer == "</html>" or len(answer.splitlines()) == 1


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    entries = card_entries()
    for _ in range(500):
        entries["settings"] = {"deeper": entries["settings"]}
    with pytest.raises(WrongInput, match="nested"):
        page(entries)
    (tmp_path / "model.json").write_text("[" * 100_000)
    with pytest.raises(WrongInput, match="damaged"):
        ModelCard.read(tmp_path)
