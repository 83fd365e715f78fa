"""What lies in a folder: ledgers, models, results and data, found by name and never outside of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privaware import registry
from privaware.card import ModelCard
from privaware.errors import PrivawareError
from privaware.events import Selected, nested
from privaware.ledger import Ledger
from privaware.report import _words

__all__ = ["Folder", "model_summary"]

DATA = (".csv", ".tsv", ".parquet", ".feather", ".npz", ".gz", ".zip", ".zst")
MOST, DEEPEST = 500, 2
HIDDEN = (
    "Only the best candidate of this search is shown. The others, their scores and their number are hidden: the price "
    "covers the release of the best alone."
)
SHOWN = "Every candidate of this search was paid for; only the best is in the folder."


@dataclass(frozen=True)
class Folder:
    """A folder and what is below it, two levels deep."""

    path: Path

    def _entries(self) -> Iterator[Path]:
        level = [self.path]
        for _ in range(DEEPEST):
            inner = [entry for folder in level for entry in sorted(folder.iterdir()) if not entry.name.startswith(".")]
            yield from inner
            level = [entry for entry in inner if entry.is_dir() and not entry.is_symlink()]

    def _named(self, paths: Iterator[Path]) -> dict[str, Path]:
        return {str(path.relative_to(self.path)): path for path, _ in zip(paths, range(MOST), strict=False)}

    def ledgers(self) -> dict[str, Path]:
        """The ledgers, by name."""
        return self._named(path for path in self._entries() if path.suffix == ".ledger" and path.is_file())

    def models(self) -> dict[str, Path]:
        """The model folders, by name."""
        return self._named(path for path in self._entries() if (path / "model.json").is_file())

    def data(self) -> list[str]:
        """Files that may hold rows, then the built-in data sets."""
        files = self._named(path for path in self._entries() if path.is_file() and path.suffix in DATA)
        return [*files, *registry.names("datasets")]

    def summaries(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """A line for each ledger and for each model; one that cannot be read says why."""
        ledgers = [{"name": name} | _ledger(path) for name, path in self.ledgers().items()]
        return ledgers, [{"name": name} | model_summary(path) for name, path in self.models().items()]


def _ledger(path: Path) -> dict[str, Any]:
    try:
        facts = Ledger.open(path).json()
    except PrivawareError as problem:
        return {"problem": str(problem)}
    share = min(100.0, 100 * facts["epsilon_spent"] / facts["limit"])
    return {
        "problem": "",
        "spent": _words.rounded_up(facts["epsilon_spent"]),
        "limit": _words.number(facts["limit"]),
        "share": f"{share:.1f}",
        "charges": len(facts["events"]),
        "unit": facts["unit"],
    }


def model_summary(path: Path) -> dict[str, Any]:
    """What a list shows of a model; for one that cannot be read, why."""
    try:
        card = ModelCard.read(path)
    except PrivawareError as problem:
        return {"problem": str(problem)}
    selected = any(isinstance(inner, Selected) for part in card.events for inner in nested(part.event))
    return {
        "problem": "",
        "learner": card.learner,
        "target": card.schema.target,
        "epsilon": _words.rounded_up(card.guarantee.epsilon),
        "certified": card.guarantee.certified,
        "created": card.created,
        "sentence": _words.tidy(card.guarantee.sentence, card.guarantee.epsilon),
        "search": (HIDDEN if selected else SHOWN) if card.search else "",
    }
