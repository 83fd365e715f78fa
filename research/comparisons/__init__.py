"""Comparisons with other libraries on one machine. Cells are stored in the same form as those of `research/papers`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

__all__ = ["record"]


def record(
    out: Path | None, item: str, settings: Mapping[str, Any], result: Mapping[str, Any], device: str = "cpu"
) -> None:
    """Append one measurement to `out`/cells.jsonl, from which its page is written."""
    from privaware.bench._store import Cell, Store, commit, machine

    if out is not None:
        facts = {"commit": commit(), "machine": machine(device), "date": datetime.now(UTC).date().isoformat()}
        Store(out / "cells.jsonl").add(Cell(item=item, settings=dict(settings), result=dict(result), run=facts))
