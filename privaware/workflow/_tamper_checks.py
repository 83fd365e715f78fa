"""Check that the files of a folder are those that a run released, against its ledger and against a signature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from privaware.events import Event
from privaware.ledger import Entry, Ledger
from privaware.workflow._statements import Check
from privaware.workflow.run.output import sha256
from privaware.workflow.run.signature import RELEASE_FILES, SIGNATURE, Signature, other_release_files, read_signature

NOT_BOUND = (
    "not bound: an earlier version closed this run without the hashes of its files, so the ledger cannot tell whether "
    "they were replaced"
)
SAVED_LATER = (
    "not bound: this run was closed before its files were written, so the ledger cannot tell whether they were replaced"
)


OLD_SIGNATURE = (
    f"{SIGNATURE} is of an earlier version: it signs the files, and neither the kind of release nor the name of the run"
)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a folder states about itself: the kind of its release, and the facts of its charge that the ledger has too.

    `release` is the kind, a key of `RELEASE_FILES`. `entry` is the hash of the charge in the ledger (None if the folder
    names none), and `event` its cost. `run` is None if the files do not name the run. `facts` has other facts by name,
    such as `delta` and `unit`.
    """

    release: str
    entry: str | None
    run: str | None
    event: Event
    facts: Mapping[str, Any]


def against_ledger(folder: Path, path: Path, claim: Claim) -> Check:
    """Check the folder against the ledger at `path`.

    The ledger must pass `Ledger.verify`. It must have the charge that `claim` names, with the same event and facts. It
    must have closed the run of this charge with the files in `folder`.
    """
    if problems := Ledger.verify(path):
        return Check(problems=problems)
    ledger = Ledger.open(path)
    entry = ledger.entry(claim.entry) if claim.entry else None
    if entry is None:
        return Check(problems=["the ledger has no entry with the hash that the model names"])
    if entry.event != claim.event:
        return Check(problems=[f"the ledger entry {entry.number} was charged for other events than the model names"])
    charged = {**asdict(ledger.facts), "seed": entry.seed, "run": entry.run}
    stated = {**claim.facts, **({} if claim.run is None else {"run": claim.run})}
    contradictions = [
        f"the ledger says {name} {charged[name]!r:.80}, the model {stated[name]!r:.80}"
        for name in ("delta", "unit", "cap", "relation", "seed", "run")
        if name in stated and stated[name] != charged[name]
    ]
    closing = None if entry.run is None else ledger.closing(entry.run)
    if closing is None:
        unfinished = f"the ledger knows the run of entry {entry.number} as charged and not as finished"
        return Check(problems=[*contradictions, unfinished])
    audits = [other for other in ledger.entries() if (other.kind, other.run) == ("audit", entry.run)]
    check = _closed_files(folder, closing, audits, path, claim)
    return Check(problems=contradictions + check.problems, unchecked=check.unchecked, bound=check.bound)


def against_signature(folder: Path, key: str | Path | None, ledger: Path | None, claim: Claim) -> Check:
    """Check that the owner of the public key in the file `key` signed the files in `folder`.

    `claim` is what the folder states. With a `ledger` that passes `Ledger.verify`, also check that the signed closing
    entry is the closing entry of the run there. Without `ledger`, also look for files that the signature does not name.
    Without `key`, a signature stays unchecked. With `key`, a missing signature is a problem.
    """
    signature = read_signature(folder)
    if key is None:
        return Check(unchecked=[] if signature is None else [f"{SIGNATURE}: give the public key with --key"])
    if signature is None:
        return Check(problems=[f"expected a signature of this key in {SIGNATURE}, got none"])
    if not signature.is_by(key):
        return Check(problems=[f"{SIGNATURE} is not by the owner of this key, or it was changed"])
    problems = _wrong_files(folder, SIGNATURE, signature.release, signature.files, claim)
    if signature.run is not None and claim.run not in (None, signature.run):
        problems.append(f"{SIGNATURE} is of another run than this {claim.release} names")
    if ledger is not None and not Ledger.verify(ledger):
        problems += _other_closing(Ledger.open(ledger), signature, claim)
    unchecked = [OLD_SIGNATURE] if signature.release is None else []
    if ledger is None:
        extra = _unnamed(folder, {*signature.files, SIGNATURE}, claim, by=SIGNATURE)
        problems, unchecked = problems + extra.problems, unchecked + extra.unchecked
    return Check(problems=problems, unchecked=unchecked, bound=not problems)


def _closed_files(folder: Path, closing: Entry, audits: Iterable[Entry], ledger: Path, claim: Claim) -> Check:
    """Compare the files of a folder with the hashes in the ledger; unchecked if the `closing` entry has no hashes.

    `claim` is what the folder states. `ledger` is the path of the ledger, which may itself be in the folder. A file
    that the `closing` entry names must have the hash in that entry. A file that only `audits` name must have the hash
    in one of them. A file that neither names is reported by `_unnamed`.
    """
    if closing.files is None:
        return Check(unchecked=[NOT_BOUND if closing.release is None else SAVED_LATER])
    problems = _wrong_files(folder, "the closing entry of the ledger", closing.release, closing.files, claim)
    audited: dict[str, set[str]] = {}
    for entry in audits:
        for name, digest in (entry.files or {}).items():
            audited.setdefault(name, set()).add(digest)
    later = set(audited) - set(closing.files)
    for item in sorted(folder.iterdir()):
        if item.name in later and _digest(item) not in audited[item.name]:
            problems.append(f"{item.name!r:.80} is not the file of an audit that the ledger names")
    known = {*closing.files, *later, ledger.name, f"{ledger.name}-journal", SIGNATURE}
    extra = _unnamed(folder, known, claim, by="the ledger")
    problems += extra.problems
    return Check(problems=problems, unchecked=extra.unchecked, bound=not problems)


def _other_closing(ledger: Ledger, signature: Signature, claim: Claim) -> list[str]:
    """Return a sentence if the signed closing entry is not the closing entry of this run in `ledger`.

    `claim.entry` is the hash of the charge of this run. Also return a sentence if the signed entry names other files,
    another run or another kind of release than the signature. Return no sentence if all agree.
    """
    signed, charged = ledger.entry(signature.closing), ledger.entry(claim.entry or "")
    if signed is None or charged is None or (signed.kind, signed.run) != ("finished", charged.run):
        return ["the signature names another closing entry than the ledger has for this run"]
    kinds = {None, signed.release, signature.release}
    if signed.files != signature.files or signature.run not in (None, signed.run) or len(kinds) > 2:
        return ["the signature names other files, another run or another kind of release than the ledger"]
    return []


def _wrong_files(folder: Path, by: str, release: str | None, files: Mapping[str, str], claim: Claim) -> list[str]:
    """Return a sentence for each difference between the folder and the files that the ledger or a signature names.

    Parameters
    ----------
    folder
        The folder of a release.
    by
        The source of `release` and `files` in words, such as "the closing entry of the ledger".
    release
        The kind of release that the source names, such as "model"; None if it names no kind.
    files
        The SHA-256 hash of each file that the source names, by the name of the file.
    claim
        What the folder states. The source must name every file of this kind of release.
    """
    problems = []
    if release not in (None, claim.release):
        problems.append(
            f"{by} is of a release of kind {release!r:.40}, and this folder holds one of kind {claim.release!r}"
        )
    if missing := [repr(name) for name in RELEASE_FILES[claim.release] if name not in files]:
        problems.append(f"{by} does not name {', '.join(missing)}: it is of another release than this {claim.release}")
    return problems + _changed(folder, files)


def _unnamed(folder: Path, known: set[str], claim: Claim, *, by: str) -> Check:
    """Check for files in `folder` that are not in `known`; `by` says in the sentences who does not name them.

    Such a file is a problem if it could be taken for a file of a release (`other_release_files`). Any other such file
    is listed as unchecked.
    """
    unknown = sorted(item.name for item in folder.iterdir() if item.name not in known)
    others = other_release_files(unknown, claim.release)
    harmless = [f"{name!r:.80}" for name in unknown if name not in others]
    shown = ", ".join(harmless[:8]) + (" and others" if len(harmless) > 8 else "")
    return Check(
        problems=[f"{name!r:.80} is no file of this {claim.release}, and {by} does not name it" for name in others],
        unchecked=[f"{by} does not name {shown}, so nobody vouches for it"] if harmless else [],
    )


def _changed(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Return a sentence for each of `files` that is no plain name, is missing, is a link, or has another hash."""
    there = {item.name for item in folder.iterdir()}  # exact names, also where the file system ignores case
    problems = []
    for name, digest in files.items():
        if name in ("", ".", "..") or not {"/", "\\", "\0"}.isdisjoint(name):
            problems.append(f"{name!r:.80}, which was released with this model, is no plain name of a file")
        elif name in there and (folder / name).is_symlink():
            problems.append(f"{name!r:.80} is a link: expected the file itself, as it was released; replace the link")
        elif name not in there or not (folder / name).is_file():
            problems.append(f"{name!r:.80}, which was released with this model, is missing")
        elif _digest(folder / name) != digest:
            problems.append(f"{name!r:.80} is not the file that was released: its hash is another")
    return problems


def _digest(path: Path) -> str | None:
    """Return the SHA-256 hash of a plain, readable file; None for anything else."""
    try:
        return None if path.is_symlink() or not path.is_file() else sha256(path)
    except OSError:
        return None
