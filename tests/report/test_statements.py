"""A page is read back as its text, and lacks no statement of its card."""

from __future__ import annotations

from dataclasses import replace

import pytest

from privaware import report
from privaware.card import ModelCard
from tests.report.pages import card_entries


@pytest.fixture(scope="module")
def card() -> ModelCard:
    return ModelCard.from_json(card_entries())


def test_text_has_neither_charts_nor_styles_and_reads_entities() -> None:
    page = "<style>p { }</style><p>a &lt; b</p><svg><text>bar</text></svg><table><tr><td>1</td><td>2</td></tr></table>"
    assert report.page_text(page) == "a < b 1 2"


def test_text_of_a_page_is_that_of_the_page_with_its_charts(card: ModelCard) -> None:
    assert report.page_text(report.page(card)) == report.text(card)


def test_page_of_a_card_lacks_no_statement_of_it(card: ModelCard) -> None:
    assert report.missing_statements(card, report.text(card)) == []


@pytest.mark.parametrize("change", [{"epsilon": 0.123}, {"delta": 1e-7}, {"unit": "person"}, {"sentence": "None."}])
def test_page_of_another_card_lacks_a_statement(card: ModelCard, change: dict[str, object]) -> None:
    other = replace(card, guarantee=replace(card.guarantee, **change))
    assert report.missing_statements(other, report.text(card)) != []
