"""What a shell completes beside verbs and options: names of algorithms, of data sets and of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from privaware.registry import names

__all__ = ["complete_data", "complete_names"]


def complete_names(kind: str, *more: str) -> Callable[[str], list[str]]:
    """A completion with what `privaware list KIND` lists, and `more`.

    >>> complete_names("learners", "auto")("a")
    ['adassp', 'additive', 'alibi', 'amortised', 'auto']
    """

    def complete(incomplete: str) -> list[str]:
        return sorted(name for name in (*names(kind), *more) if name.startswith(incomplete))

    return complete


def complete_data(incomplete: str) -> list[str]:
    """Built-in data sets, and files and folders that begin like this."""
    start = Path(incomplete)
    folder = start if incomplete.endswith("/") else start.parent
    beginning = "" if incomplete.endswith("/") else start.name
    paths = sorted(folder.glob("*")) if folder.is_dir() else []
    files = [str(path) for path in paths if path.name.startswith(beginning) and not path.name.endswith(".ledger")]
    return complete_names("datasets")(incomplete) + files
