"""What a page says of a guarantee, read back from its text: to tell whether it is the page of a card."""

from __future__ import annotations

from html.parser import HTMLParser

from privaware.card import ModelCard
from privaware.report import _words

__all__ = ["missing_statements", "page_text"]

UNREAD = ("style", "script", "svg")
"""Elements whose content is no text."""


def missing_statements(card: ModelCard, text: str) -> list[str]:
    """The statements of the card's guarantee that a page with this text lacks."""
    guarantee = card.guarantee
    epsilon, delta = _words.rounded_up(guarantee.epsilon), _words.rounded_up(guarantee.delta)
    statements = [
        _words.tidy(guarantee.sentence, guarantee.epsilon),
        f"epsilon {epsilon} delta {delta}",
        f"unit {guarantee.unit}:",
        f"relation {guarantee.relation}:",
        f"together all of them, composed {epsilon}",
        *(part.what for part in card.events),
        card.ledger.entry or "names no ledger entry",
    ]
    said = _words.tidy(text, guarantee.epsilon)
    return [statement for statement in statements if " ".join(statement.split()) not in said]


def page_text(page: str) -> str:
    """The text of a page as a person reads it, on one line, without its charts."""
    reader = _Text()
    reader.feed(page)
    reader.close()
    return " ".join(" ".join(reader.pieces).split())


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self.unread = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.unread += tag in UNREAD

    def handle_endtag(self, tag: str) -> None:
        self.unread -= tag in UNREAD

    def handle_data(self, data: str) -> None:
        if not self.unread:
            self.pieces.append(data)
