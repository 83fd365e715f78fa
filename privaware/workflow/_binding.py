"""Whether the files of a folder are those that a run released: against its ledger, and against a signature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from privaware.events import Event
from privaware.ledger import Entry, Ledger
from privaware.workflow._output import sha256
from privaware.workflow._signature import SIGNATURE, read_signature
from privaware.workflow._statements import Check

__all__ = ["Claim", "against_ledger", "against_signature"]

NOT_BOUND = (
    "not bound: an earlier version closed this run without the hashes of its files, so the ledger cannot tell whether "
    "they were replaced"
)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a folder says of its charge: the entry's hash, the events, and facts that the ledger has too."""

    entry: str | None
    event: Event
    facts: Mapping[str, Any]


def against_ledger(folder: Path, path: Path, claim: Claim) -> Check:
    """Whether the ledger is sound, has the charge that the folder names, and closed that run with these files."""
    if problems := Ledger.verify(path):
        return Check(problems=problems)
    ledger = Ledger.open(path)
    entry = ledger.entry(claim.entry) if claim.entry else None
    if entry is None:
        return Check(problems=["the ledger has no entry with the hash that the model names"])
    if entry.event != claim.event:
        return Check(problems=[f"the ledger entry {entry.number} was charged for other events than the model names"])
    charged = {**asdict(ledger.facts), "seed": entry.seed}
    contradictions = [
        f"the ledger says {name} {charged[name]!r:.80}, the model {claim.facts[name]!r:.80}"
        for name in ("delta", "unit", "cap", "relation", "seed")
        if name in claim.facts and claim.facts[name] != charged[name]
    ]
    closing = None if entry.run is None else ledger.closing(entry.run)
    if closing is None:
        unfinished = f"the ledger knows the run of entry {entry.number} as charged and not as finished"
        return Check(problems=[*contradictions, unfinished])
    audits = [other for other in ledger.entries() if (other.kind, other.run) == ("audit", entry.run)]
    check = _bound_files(folder, closing, audits, {path.name, f"{path.name}-journal"})
    return Check(problems=contradictions + check.problems, unchecked=check.unchecked, bound=check.bound)


def against_signature(folder: Path, key: str | Path | None, ledger: Path | None, claim: Claim) -> Check:
    """Whether the owner of `key` signed these files; with `ledger`, also that they were closed there."""
    signature = read_signature(folder)
    if key is None:
        return Check(unchecked=[] if signature is None else [f"{SIGNATURE}: give the public key with --key"])
    if signature is None:
        return Check(problems=[f"expected a signature of this key in {SIGNATURE}, got none"])
    if not signature.is_by(key):
        return Check(problems=[f"{SIGNATURE} is not by the owner of this key, or it was changed"])
    problems = _changed(folder, signature.files)
    if ledger is not None and not Ledger.verify(ledger):
        signed = Ledger.open(ledger).entry(signature.closing)
        charged = Ledger.open(ledger).entry(claim.entry or "")
        if signed is None or charged is None or (signed.kind, signed.run) != ("finished", charged.run):
            problems.append("the signature is of another closing entry than that of this run in the ledger")
    return Check(problems=problems, bound=not problems)


def _bound_files(folder: Path, closing: Entry, audits: Iterable[Entry], ledger: set[str]) -> Check:
    """The files of a folder against the hashes in the closing entry, and those of audits that came later."""
    if closing.files is None:
        return Check(unchecked=[NOT_BOUND])
    problems = _changed(folder, closing.files)
    audited: dict[str, set[str]] = {}
    for entry in audits:
        for name, digest in (entry.files or {}).items():
            audited.setdefault(name, set()).add(digest)
    unknown = []
    for item in sorted(folder.iterdir()):
        if item.name in audited and item.name not in closing.files:
            if not item.is_file() or sha256(item) not in audited[item.name]:
                problems.append(f"{item.name!r:.80} is not the file of an audit that the ledger names")
        elif item.name not in {*closing.files, *ledger, SIGNATURE}:
            unknown.append(f"{item.name!r:.80}")
    shown = ", ".join(unknown[:8]) + (" and others" if len(unknown) > 8 else "")
    return Check(
        problems=problems,
        unchecked=[f"the ledger does not name {shown}, so nobody vouches for it"] if unknown else [],
        bound=not problems,
    )


def _changed(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Files that are missing or not those that were released."""
    problems = []
    for name, digest in files.items():
        path = folder / name
        if Path(name).name != name or not path.is_file():
            problems.append(f"{name!r:.80}, which was released with this model, is missing")
        elif sha256(path) != digest:
            problems.append(f"{name!r:.80} is not the file that was released: its hash is another")
    return problems
