"""The limitations of a guarantee, and the check that a page states the guarantee of a card."""

from __future__ import annotations

from html.parser import HTMLParser

from privaware.card import ModelCard
from privaware.guarantee import feature_names
from privaware.report import _words
from privaware.report._sentences import guarantee_words

UNREAD = ("style", "script", "svg")
"""HTML elements whose content is not text."""


def missing_statements(card: ModelCard, text: str) -> list[str]:
    """Return the statements of the card's guarantee that are missing in `text`, the text of a page by `page_text`.

    The statements are the sentence of the guarantee, epsilon and delta, unit, relation, the composed total, each
    release, and the ledger entry. The sentence counts as present in the wording of this version or as the card stores
    it.
    """
    guarantee = card.guarantee
    epsilon, delta = _words.rounded_up(guarantee.epsilon), _words.rounded_up(guarantee.delta)
    said = _words.tidy(text, guarantee.epsilon)
    earlier = _words.tidy(guarantee.sentence, guarantee.epsilon)
    statements = [
        earlier if " ".join(earlier.split()) in said else guarantee_words(card),
        f"epsilon {epsilon} delta {delta}",
        f"unit {guarantee.unit}:",
        f"relation {guarantee.relation}:",
        f"together all of them, composed {epsilon}",
        *(part.what for part in card.events),
        card.ledger.entry or "names no ledger entry",
    ]
    return [statement for statement in statements if " ".join(statement.split()) not in said]


def page_text(page: str) -> str:
    """Return the text of an HTML page on one line, without the contents of its styles, scripts and drawings (SVG)."""
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


LEARNED_ELSEWHERE = {
    "sentences": "Texts are embedded by a network that was trained on public text. If that text contains rows of this "
    "data set, the guarantee does not cover what the network learned from them.",
    "extractor": "Images are embedded by a network that was trained on public photographs. If they contain images of "
    "this data set, the guarantee does not cover what the network learned from them.",
}
"""The limitation to state for each feature that was trained on other data, by the name of the feature."""


def limitations(card: ModelCard, *, table: str = "the table of columns of the report") -> list[str]:
    """Return the limitations of the guarantee and the model, one or two sentences each.

    `table` is what the sentences call the table of columns. The limitations that the owner stated come last.
    """
    guarantee, schema = card.guarantee, card.schema
    lines = []
    if guarantee.unit == "row":
        lines.append(
            "The unit of privacy is one row. A person with k rows has a weaker guarantee: epsilon is up "
            "to k times as large, and delta is larger, too."
        )
    elif guarantee.unit in _words.LABEL_UNITS:
        lines.append("Only labels are protected. The guarantee does not cover the other columns of a row.")
    else:
        lines.append(
            f"At most {schema.cap:,} row{'s' if schema.cap > 1 else ''} with one value of '{guarantee.unit}' were "
            "used. Further rows, if there were any, were left out."
        )
    lines.append(
        "The guarantee does not hide facts about groups. The model may predict something about a "
        "person because it holds "
        "for similar people, whether that person was in the data or not."
    )
    total = " The ledger of the data set has the total of all releases that were charged to it."
    lines.append(f"Every other release from the same rows adds to epsilon.{total if card.ledger.entry else ''}")
    lines.append(
        "Noise affects small groups most. Test the model on the people it will be used for, with your own test rows."
    )
    kinds = {column.kind for column in schema.declared} if schema.form == "table" else set()
    if kinds & {"number", "date"}:
        lines.append(f"Numbers outside the ranges in {table} are clipped to them.")
    if "category" in kinds:
        lines.append(
            f"The model knows only the categories that {table} counts. What it does with "
            'another category stands there under "if unseen".'
        )
    named = feature_names(card.features)
    lines += [LEARNED_ELSEWHERE[name] for name in named if name in LEARNED_ELSEWHERE]
    owner = card.description.get("limitations", [])
    return [*lines, *(line for line in owner if isinstance(owner, list) and isinstance(line, str))]
