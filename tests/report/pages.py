"""The entries of a model.json, and a reader of the page that is rendered from them."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from privaware import report
from privaware.card import ModelCard
from privaware.events import Gaussian, Laplace, to_json
from privaware.schema import Column, Schema

ENTRY = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


def card_entries() -> dict[str, Any]:
    schema = Schema(
        columns=(
            Column(name="age", low=17, high=90, bins=(30, 45)),
            Column(name="work", kind="category", categories=("a", "b", "c"), unseen="other"),
            Column(name="weight", kind="ignore"),
        ),
        target="income",
        classes=("low", "high"),
        rows=32561,
        assumed=("the bounds of age were confirmed",),
    )
    return {
        "format": 1,
        "version": "0.1.7",
        "created": "2026-02-03T10:11:12Z",
        "learner": "linear",
        "settings": {"steps": 117, "lr": 0.625},
        "schema": schema.json(),
        "features": [{"name": "onehot", "width": 31}],
        "architecture": {"name": "softmax", "inputs": 37},
        "plan": ["Encode by public bins.", "Train in noisy steps."],
        "guarantee": {
            "epsilon": 1.0,
            "delta": 1e-5,
            "unit": "row",
            "relation": "add_remove",
            "sampler": "every row in every step",
            "method": "pld",
            "accountants": {"pld": 0.99998, "cf": 0.9975, "rdp": 1.0963},
            "certified": True,
            "seed": None,
            "sentence": "Anyone learns almost the same with you or without you.",
            "assumptions": ["The number of rows was declared."],
        },
        "events": [
            {"what": "count", "event": to_json(Laplace(noise=20.0)), "epsilon": 0.05},
            {"what": "train", "event": to_json(117 * Gaussian(noise=43.7)), "epsilon": 0.9712},
        ],
        "ledger": {"entry": ENTRY, "run": "k"},
    }


def page(entries: dict[str, Any]) -> str:
    """The page of a `model.json` with these entries."""
    return report.page(ModelCard.from_json(entries))


class Reader(HTMLParser):
    """What a browser would make of the page: its tags, attributes and visible words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.feed(page)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words.append(data)
