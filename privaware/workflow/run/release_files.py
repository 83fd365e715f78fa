"""The files that each kind of release consists of: a ledger or a signature vouches for a release only with all of them.

No two kinds share a file, so the names alone tell the kind of a release whose closing entry does not name it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from privaware.model import TENSORS

__all__ = ["RELEASE_FILES", "kind_of_release", "other_release_files"]

RELEASE_FILES: dict[str, tuple[str, ...]] = {
    "model": ("model.json", TENSORS, "report.html"),
    "selection": ("selection.json",),
    "crossover": ("crossover.json",),
    "audit": ("audit.json",),
}
"""The files of each kind of release, by the name that the closing entry of the ledger has for the kind."""
BESIDE_A_MODEL = ("audit.json",)
"""Files of other releases that may lie in the folder of a model: `privaware audit MODEL` writes them there."""


def kind_of_release(files: Collection[str]) -> str | None:
    """The kind of release whose files are all among the names in `files`, if there is one."""
    return next((kind for kind, names in RELEASE_FILES.items() if set(names) <= set(files)), None)


def other_release_files(names: Iterable[str], kind: str) -> list[str]:
    """Names that are taken for a file of a release, by some program or on some file system, and must not lie here.

    Parameters
    ----------
    names
        The names of files in the folder that nobody vouches for.
    kind
        The kind of release in the folder.

    Returns
    -------
    list of str
        Those that are a file of a release, or differ from one only in upper and lower case.
    """
    allowed = BESIDE_A_MODEL if kind == "model" else ()
    taken = {name for files in RELEASE_FILES.values() for name in files}
    return [name for name in names if name.casefold() in taken and name not in allowed]
