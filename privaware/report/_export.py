"""Write the card of a model in other formats; no existing file is overwritten."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from privaware._files import atomic_write
from privaware._validate import expect
from privaware.card import ModelCard
from privaware.errors import WrongInput
from privaware.report._card_cyclonedx import cyclonedx_json
from privaware.report._card_huggingface import huggingface_markdown
from privaware.report._card_nist import nist_markdown
from privaware.report._card_registry import registry_yaml
from privaware.report._card_sacro import Predictions, sacro_files
from privaware.report._owner import owner_statement
from privaware.report._printable import printable
from privaware.report._risk import read_audit

FILES: dict[str, tuple[str, Callable[[ModelCard], str]]] = {
    "registry": ("registry.yaml", registry_yaml),
    "huggingface": ("README.md", huggingface_markdown),
    "cyclonedx": ("model.cdx.json", cyclonedx_json),
    "nist": ("nist-sp-800-226.md", nist_markdown),
}
FORMATS = (*FILES, "sacro")
WANTED = {
    "registry": ("owner", "owner_type", "intended_use", "region", "data"),
    "huggingface": ("owner", "contact", "intended_use", "licence"),
    "cyclonedx": ("owner", "intended_use", "intended_users"),
    "nist": ("owner", "intended_use", "data"),
    "sacro": ("data",),
}
"""Entries that the owner should state for each format."""


class Exported:
    """Where a card was written (`out`), and the names of wanted entries that its owner has not stated (`missing`)."""

    def __init__(self, out: Path, missing: list[str]) -> None:
        self.out, self.missing = out, missing

    def json(self) -> dict[str, Any]:
        """Return the fields of `privaware card --json`."""
        return {"out": str(self.out), "missing": self.missing}


def export(
    folder: str | Path,
    to: str,
    out: str | Path | None = None,
    *,
    describe: str | Path | Mapping[str, Any] | None = None,
    predictions: Predictions | None = None,
) -> Exported:
    """Write the card of a model folder in another format.

    Parameters
    ----------
    folder
        The model folder.
    to
        "registry", "huggingface", "cyclonedx", "nist" or "sacro".
    out
        The new file, or for "sacro" the new folder, outside the model folder. Default: the name in `FILES`, or
        "FOLDER-sacro", in the current folder. An existing file or folder raises `WrongInput`.
    describe
        A TOML file, or a mapping, with the owner's statement.
    predictions
        For "sacro": class probabilities of members and of non-members, two arrays (rows, classes). The new folder is
        then for the owner of the rows only. With another format they raise `WrongInput`.

    Returns
    -------
    Exported
        Where the card was written, and which of the entries `WANTED` for this format the owner has not stated. A model
        without a finite epsilon raises `WrongInput`.
    """
    expect(to in FORMATS, "", f"--to among {', '.join(FORMATS)}", to)
    if predictions is not None and to != "sacro":
        raise WrongInput(f"expected members and non-members with sacro only, got them with {to}; leave them out")
    folder = Path(folder)
    card = printable(ModelCard.read(folder))
    card = replace(card, description={**card.description, **owner_statement(describe)})
    if not math.isfinite(card.guarantee.epsilon):
        raise WrongInput(
            "expected a model with a finite epsilon, got one without a proven guarantee; it has no card to export"
        )
    missing = [name for name in WANTED[to] if name not in card.description]
    path = Path(out) if out is not None else Path(f"{folder.name}-{to}" if to == "sacro" else FILES[to][0])
    if os.path.lexists(path):
        raise WrongInput(f"{path} exists already; name another place with --out, or remove it")
    if path.parent.resolve() == folder.resolve():
        raise WrongInput(
            "expected --out outside the model folder, because the files in it are the release; name another place"
        )
    try:
        if to == "sacro":
            private = predictions is not None
            path.mkdir(mode=0o700 if private else 0o777)
            for name, content in sacro_files(card, read_audit(folder), predictions).items():
                atomic_write(path / name, content.encode(), mode=0o600 if private else 0o666)
        else:
            atomic_write(path, FILES[to][1](card).encode())
    except OSError as problem:
        raise WrongInput(f"cannot write the card {path}: {problem.strerror or problem}; name another place") from None
    return Exported(path, missing)
