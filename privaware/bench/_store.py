"""Stored cells: settings, result and provenance of each run, one JSON line a cell."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from privaware.bench import Result, Settings

TRAINED = ("algorithm", "settings", "architecture", "rows", "delta", "epsilon", "seed")
"""The settings of a cell from which its model follows; the other settings, names and attacks, change no model."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of an `item` (a table, figure or grid): settings, result and `run` (commit, machine, date and so on)."""

    item: str
    settings: Settings
    result: Result
    run: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return cell_key(self.item, self.settings)


def cell_key(item: str, settings: Settings) -> str:
    return f"{item} {json.dumps(settings, sort_keys=True)}"


def training_key(settings: Settings) -> str:
    """Return a text (JSON) of the values of `settings` from which the model of a cell follows (`TRAINED`).

    Cells with equal keys have the same model, also if they belong to different items.
    """
    return json.dumps([settings.get(name) for name in TRAINED], sort_keys=True)


@dataclass(frozen=True)
class Store:
    """A file of stored cells, trained or failed, one JSON line each; the last line of a cell counts.

    A line that was cut short when its process was killed is ignored, so its cell is run again.
    """

    path: Path

    def read(self) -> dict[str, Cell]:
        if not self.path.exists():
            return {}
        cells: dict[str, Cell] = {}
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                cell = Cell(**json.loads(line))
            except (ValueError, TypeError):
                continue
            cells[cell.key] = cell
        return cells

    def of(self, item: str) -> list[Cell]:
        return [cell for cell in self.read().values() if cell.item == item]

    def write(self, cells: Iterable[Cell]) -> None:
        """Replace the content of the file by `cells`."""
        lines = [json.dumps(asdict(cell), allow_nan=False, ensure_ascii=False) + "\n" for cell in cells]
        self.path.write_text("".join(lines), encoding="utf-8")

    def add(self, cell: Cell) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        complete = not self.path.exists() or self.path.read_bytes()[-1:] in (b"", b"\n")
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(
                ("" if complete else "\n") + json.dumps(asdict(cell), allow_nan=False, ensure_ascii=False) + "\n"
            )
            file.flush()
            os.fsync(file.fileno())


def machine(device: str) -> str:
    """Return the processor architecture for "cpu", such as "CPU (x86_64)", else the name of the GPU."""
    if device == "cpu":
        return f"CPU ({platform.machine()})"
    import torch

    return str(torch.cuda.get_device_name())


def commit() -> str:
    """Return the short hash of the source's commit, or "unknown" outside a git clone."""
    words = ["git", "rev-parse", "--short", "HEAD"]
    try:
        answer = subprocess.run(words, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()
