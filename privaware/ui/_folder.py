"""The content of a folder: ledgers, models, predictions and data, found by name and never outside the folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privaware.card import ModelCard
from privaware.errors import PrivawareError, WrongInput
from privaware.events import Selected, nested
from privaware.ledger import Ledger, unit_words
from privaware.report import _words
from privaware.report._sentences import guarantee_words, tuning_sentence

DATA = (
    *(".csv", ".tsv", ".parquet", ".feather", ".npz", ".gz", ".zip", ".zst", ".bz2", ".jsonl", ".ndjson", ".xlsx"),
    *(".arff", ".dta", ".xpt", ".sas7bdat", ".sav"),
)
"""Suffixes of files that may hold rows."""
PREDICTIONS = "predictions"
"""Folder in which the page writes predictions."""
MAX_LISTED = 500
"""Largest number of ledgers, models or data files that a page lists."""
HIDDEN = (
    "Only the best candidate of this search is shown. The others, their scores and their number are hidden: the "
    "epsilon is for the release of the best alone."
)


@dataclass(frozen=True)
class Folder:
    """A folder and its content: its entries, and the entries of its sub-folders; `path` is resolved.

    Names are paths relative to `path`: first the sorted entries of the folder, then the sorted entries of each
    sub-folder. Hidden entries and links that lead outside `path` are ignored. At most the first `MAX_LISTED` entries of
    a kind are listed. If `path` cannot be read, `WrongInput` is raised; a sub-folder that cannot be read is left out.
    """

    path: Path

    def ledgers(self) -> dict[str, Path]:
        """Return the paths of the files that end in .ledger, by their path relative to this folder."""
        return self._named(path for path in self._entries() if path.suffix == ".ledger" and path.is_file())

    def models(self) -> dict[str, Path]:
        """Return the paths of the model folders, by their path relative to this folder.

        A model folder has a `model.json`, and no link in it leads outside of `self.path`.
        """
        return self._named(path for path in self._entries() if self._is_model(path))

    def data_files(self) -> dict[str, Path]:
        """Return the paths of the files whose suffix is in `DATA`, by their relative path, such as "may/rows.csv".

        Files in the sub-folder `PREDICTIONS` are left out.
        """
        files = (path for path in self._entries() if path.is_file() and path.suffix in DATA)
        return self._named(path for path in files if path.parent != self.path / PREDICTIONS)

    def schemas(self) -> dict[str, Path]:
        """Return the paths of the files that end in .toml, by their path relative to this folder.

        Their content is not read: each may declare a schema.
        """
        return self._named(path for path in self._entries() if path.is_file() and path.suffix == ".toml")

    def predictions(self) -> dict[str, Path]:
        """Return the paths of the .csv and .parquet files directly in `PREDICTIONS`, a sub-folder of this folder.

        The keys are the paths relative to this folder, such as "predictions/rows.csv".
        """
        files = (path for path in self._entries() if path.is_file() and path.suffix in (".csv", ".parquet"))
        return self._named(path for path in files if path.parent == self.path / PREDICTIONS)

    def summaries(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return a list of summaries of the ledgers, and one of the models; each summary is a dict for a page.

        A ledger or model that cannot be read has only its `name` and a `problem`, the reason. Otherwise `problem` is
        empty.
        """
        ledgers = [{"name": name} | _ledger(path) for name, path in self.ledgers().items()]
        return ledgers, [{"name": name} | model_summary(path) for name, path in self.models().items()]

    def _entries(self) -> Iterator[Path]:
        try:
            level = self._inside(self.path)
        except OSError as problem:
            raise WrongInput(
                f"expected the folder that this page is about, but it is gone or cannot be read ({problem.strerror}); "
                "put it back, or end this page and open another folder"
            ) from None
        yield from level
        for folder in (entry for entry in level if entry.is_dir() and not entry.is_symlink()):
            with suppress(OSError):  # removed in the meantime, or owned by another user
                yield from self._inside(folder)

    def _inside(self, folder: Path) -> list[Path]:
        """Return the entries of a folder in sorted order, without hidden ones and without links that lead outside."""
        return [entry for entry in sorted(folder.iterdir()) if not entry.name.startswith(".") and self.holds(entry)]

    def holds(self, path: Path) -> bool:
        """Whether a path, with every link followed, lies in this folder."""
        try:
            return path.resolve().is_relative_to(self.path)
        except (OSError, RuntimeError):  # a circle of links
            return False

    def shown(self, text: str) -> str:
        """Return `text` with every absolute path into this folder made relative to it, by removing its beginning."""
        return text.replace(f"{self.path}{os.sep}", "")

    def _is_model(self, path: Path) -> bool:
        try:
            return (path / "model.json").is_file() and all(map(self.holds, path.iterdir()))
        except OSError:
            return False

    def _named(self, paths: Iterator[Path]) -> dict[str, Path]:
        return {str(path.relative_to(self.path)): path for path, _ in zip(paths, range(MAX_LISTED), strict=False)}


def _ledger(path: Path) -> dict[str, Any]:
    try:
        facts = Ledger.open(path).json()
    except PrivawareError as problem:
        return {"problem": str(problem)}
    share = min(100.0, 100 * facts["epsilon_spent"] / facts["limit"])
    return {
        "problem": "",
        "spent": _words.rounded_up(facts["epsilon_spent"]),
        "limit": _words.rounded_up(facts["limit"]),
        "share": f"{share:.1f}",
        "charges": len(facts["events"]),
        "unit": unit_words(facts),
    }


def model_summary(path: Path) -> dict[str, Any]:
    """Return what a page shows about the model in the folder `path`: learner, target, epsilon, guarantee, search.

    If its card cannot be read, return only `problem`, the reason; otherwise `problem` is empty.
    """
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
        "created": card.created.replace("T", " ").replace("+00:00", " UTC"),
        "sentence": guarantee_words(card),
        "search": (HIDDEN if selected else tuning_sentence(card)) if card.search else "",
    }
