"""The file in an output folder that names the charged run to which the folder belongs until its result is published."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

__all__ = ["CLAIM", "SEARCH", "unfinished_run"]

SEARCH = ".search"
"""Folder in which a run keeps the journal from which it resumes."""
CLAIM = "run.json"
"""Name of the file in the folder `SEARCH` that names the run and the ledger of an output folder."""


def unfinished_run(folder: Path) -> str | None:
    """Return a sentence that says that `folder` belongs to an unfinished run, and how to finish it; None if not."""
    try:
        ledger = str(json.loads((folder / SEARCH / CLAIM).read_bytes())["ledger"])
    except (KeyError, OSError, TypeError, ValueError):
        return None
    shown = shlex.join(["privaware", "ledger", ledger])
    return (
        f"{str(folder)!r:.120} is the folder of a run that is charged but not finished, so it holds no result yet; "
        f"repeat its command with the same data to finish it without another charge (`{shown}` names its entry)"
    )
