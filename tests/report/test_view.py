"""The page shows every public entry of a card, and warns where the guarantee does not hold."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from privaware.errors import WrongInput
from privaware.events import NOTHING, Gaussian, Pure, Unproven, to_json
from privaware.report._view import _column
from privaware.schema import Column, Schema
from tests.report.pages import ENTRY, Reader, card_entries, page


@pytest.fixture(scope="module")
def plain() -> str:
    return page(card_entries())


@pytest.mark.parametrize(
    "fact",
    [
        "linear for income",
        "Anyone learns almost the same with you or without you.",
        "epsilon 1",
        "1e-5",
        "row: one row",
        "add_remove: neighbouring data sets differ by adding or removing one unit",
        "every row in every step",
        "1 reported",
        "0.9975 check",
        "1.097 check",
        "certified yes",
        "The number of rows was declared.",
        "the bounds of age were confirmed",
        "Encode by public bins.",
        "Train in noisy steps.",
        "count 1 x Laplace, noise multiplier 20 0.05",
        "train 117 x Gaussian, noise multiplier 43.7 0.9712",
        "The epsilons of the releases add up to 1.022, but together they cost 1,",
        "sub-additive",
        "an attacker who wrongly takes 1% of the other candidates for members identifies at most 1.91% of the members",
        "right at most 55.1% of the time",
        "columns used 2 not used weight",
        "A person with k rows has a weaker guarantee",
        "The owner has made no statement",
        "name and role date signature",
        "age number 17 to 90, 3 bins",
        "work category 3 categories: a, b, c refuse other",
        "weight ignore not used",
        "income: 2 classes: low, high",
        "32,561",
        "inputs 37",
        "name onehot width 31",
        "steps 117 lr 0.625",
        "privaware verify FOLDER",
        ENTRY,
        "privaware 0.1.7",
        "2026-02-03T10:11:12Z",
    ],
)
def test_page_shows_every_entry_of_the_card(plain: str, fact: str) -> None:
    assert fact in Reader(plain).text


def test_chart_has_a_text_alternative_and_bars_are_text(plain: str) -> None:
    assert plain.count("<svg") == 1
    assert "at a false positive rate of 1%" in "".join(re.findall(r'role="img" aria-label="([^"]*)"', plain))
    assert "Where the budget went count 0.05 train 0.9712 together 1 The epsilons" in Reader(plain).text


def test_numbers_of_sentences_are_those_of_the_page() -> None:
    entries = card_entries()
    entries["guarantee"].update(epsilon=0.99974, sentence="2.72 times as likely (epsilon 0.9997), chance 1e-05.")
    entries["plan"] = ["noise multiplier 37: total epsilon 0.9997 at delta 1e-05"]
    text = Reader(page(entries)).text
    assert "0.9997 " not in text.replace("0.99974", "")
    assert "1e-05" not in text
    assert "total epsilon 0.9998 at delta 1e-5" in text


def test_considered_learner_with_an_odd_entry_is_not_known() -> None:
    row = {"learner": "linear", "rule": "", "taken": {}, "reason": ""}
    assert "not known" in page({**card_entries(), "considered": [row]})


def test_every_mechanism_of_a_release_is_listed() -> None:
    entries = card_entries()
    event = sum((Gaussian(noise=float(noise)) for noise in range(2, 11)), start=NOTHING)
    entries["events"] = [{"what": "release bounds", "event": to_json(event), "epsilon": 0.5}]
    text = Reader(page(entries)).text
    assert all(f"1 x Gaussian, noise multiplier {noise}" in text for noise in range(2, 11))
    assert "more release" not in text


def test_number_of_rows_is_assumed_public_once() -> None:
    entries = card_entries()
    entries["guarantee"]["assumptions"] = ["public: the number of rows", "public: the declared number of rows and more"]
    text = Reader(page(entries)).text
    assert "public: the declared number of rows and more" in text
    assert "public: the number of rows" not in text


def test_assumed_facts_of_the_schema_are_called_public() -> None:
    entries = card_entries()
    entries["schema"]["assumed"] = ["the classes of income"]
    assert "public: the classes of income" in Reader(page(entries)).text


def test_columns_outside_a_declared_schema_may_be_unused() -> None:
    entries = card_entries()
    entries["data"] = {"name": "people.csv", "origin": "declared"}
    assert "columns that the schema does not name, if there are any" in Reader(page(entries)).text


def test_page_of_images_names_no_columns() -> None:
    entries = card_entries()
    images = Schema(columns=(), target="class", classes=("a", "b"), rows=10, form="image", shape=(3, 8, 8))
    entries["schema"] = images.json()
    text = Reader(page(entries)).text
    assert "columns used" not in text
    assert "Images form image target class: 2 classes: a, b" in text


def test_owner_is_shown_where_there_is_one() -> None:
    entries = card_entries()
    entries["description"] = {"name": "Screening", "owner": "Hospital <b>", "limitations": ["only adults"]}
    html = page(entries)
    assert "<h1>Screening</h1>" in html
    assert "Hospital &lt;b&gt;" in html
    assert "only adults" in html
    assert "made no statement" not in html


@pytest.mark.parametrize("wrong", [{"owner": 3}, {"limitations": "none"}, {"limitations": [1, {}]}, {"foo": {}}])
def test_statement_of_another_form_is_left_out(wrong: dict[str, Any]) -> None:
    entries = card_entries() | {"description": wrong}
    assert Reader(page(entries)).text == Reader(page(card_entries())).text


def test_dates_are_written_as_dates() -> None:
    entries = card_entries()
    joined = Column(name="joined", kind="date", low="2015-01-01", high="2025-01-01")  # type: ignore[arg-type]
    entries["schema"] = Schema(columns=(joined,), target="y", classes=("a", "b"), rows=10).json()
    assert "joined date 2015-01-01 to 2025-01-01" in Reader(page(entries)).text


def test_large_epsilon_is_not_called_safe() -> None:
    entries = card_entries()
    entries["guarantee"]["epsilon"] = 20.0
    entries["events"] = [{"what": "train", "event": to_json(Pure(epsilon=20.0)), "epsilon": 20.0}]
    text = Reader(page(entries)).text
    assert "identifies perhaps nearly all members: the guarantee does not exclude it" in text
    assert "identifies at most 100%" not in text


def test_seeded_model_carries_a_warning_even_if_called_certified(plain: str) -> None:
    assert "not for release" not in plain
    entries = card_entries()
    entries["guarantee"]["seed"] = 0  # still says certified
    text = Reader(page(entries)).text
    assert "seeded, not for release" in text
    assert "certified no" in text


@pytest.mark.parametrize(
    ("change", "band"),
    [
        ({"certified": False}, "not certified: the run did not meet the conditions"),
        ({"certified": False, "accountants": {"pld": 1.0, "cf": 1.1}}, "not certified: the accountants disagree"),
        ({"epsilon": None}, "not certified: no finite epsilon is proven"),
        ({"epsilon": math.inf}, "not certified: no finite epsilon is proven"),
    ],
)
def test_warning_says_why_a_model_is_not_certified(change: dict[str, Any], band: str) -> None:
    entries = card_entries()
    entries["guarantee"].update(change)
    text = Reader(page(entries)).text
    assert band in text
    assert "certified no" in text


def test_warning_names_an_unproven_event() -> None:
    entries = card_entries()
    event = 3 * (Pure(epsilon=0.1) + Unproven(reason="images enter the loss"))
    entries["events"].append({"what": "draw", "event": to_json(event), "epsilon": None})
    assert "not certified: images enter the loss" in Reader(page(entries)).text


def test_long_schema_and_many_events_give_a_page() -> None:
    entries = card_entries()
    many = tuple(Column(name=f"bit {i}", low=0, high=1) for i in range(600))
    entries["schema"] = Schema(columns=many, target="shop", low=0.0, high=5.0, rows=10).json()
    entries["events"] = entries["events"] * 50
    html = page(entries)
    assert "bit 599" in html
    assert "The table below lists 76 more releases." in Reader(html).text
    assert "a number, 0 to 5" in html


def test_number_beyond_every_float_gives_a_page_or_one_sentence() -> None:
    entries = card_entries()
    entries["events"][0]["event"] = {"kind": "RandomisedResponse", "epsilon": 1.0, "classes": 10**400}
    try:
        answer = page(entries)[-8:].strip()
    except WrongInput as problem:
        answer = str(problem)
    assert answer == "</html>" or len(answer.splitlines()) == 1


def test_sum_without_trees_is_shown_without_trees() -> None:
    entries = card_entries()
    shape = {"levels": [3], "outputs": 2, "trees": 0, "depth": 3, "waves": 1024, "bent": []}
    entries["architecture"] = {"name": "trees", **shape}
    text = Reader(page(entries)).text
    assert "random Fourier features 1024" in text
    assert not any(word in text for word in ("waves", "bent", "trees 0", "depth 3", "name trees"))


def test_missing_texts_are_said_to_be_read_as_empty() -> None:
    assert _column(Column(name="note", kind="text"))["missing"] == "read as an empty text"
    assert _column(Column(name="age"))["missing"] == "refuse"


def test_shown_ranges_are_rounded_outward_to_few_digits() -> None:
    age = Column(name="age", low=0.600324564415, high=99.98765432)
    assert _column(age)["declared"] == "0.6 to 100"
    assert _column(Column(name="lat", low=44.9123456, high=45.1))["declared"] == "44.912 to 45.1"
    assert _column(Column(name="pay", low=0.5, high=123456.0))["declared"] == "0.5 to 123,456"
