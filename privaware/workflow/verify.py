"""Verify a result: recompute its statements from its events, and compare its files with a ledger and a signature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privaware._summary import Summarised
from privaware._validate import expect_path
from privaware.errors import WrongInput, for_caller
from privaware.events import NOTHING
from privaware.workflow._statements import (
    Check,
    Priced,
    price,
    wrong_accountants,
    wrong_plan,
    wrong_prices,
    wrong_report,
    wrong_words,
)
from privaware.workflow._tamper_checks import Claim, against_ledger, against_signature
from privaware.workflow.load import changed_tensors, loaded
from privaware.workflow.run.result_file import ResultFile, result_name

__all__ = ["Verdict", "verify"]

ALONE = (
    "without --ledger: whether the data set was charged for this, and whether these are the files that were released"
)
SIGNED_ALONE = "without --ledger: whether the data set was charged for this, and what else was"
UNCERTIFIED = "not certified: the sentence of its guarantee says why"
"""Why a result is not certified, without a seed."""

SEEDED = "seeded, so not certified: anybody who knows the seed can remove the noise"
"""Why a result of a seeded run is not certified."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Verdict(Summarised):
    """The result of `verify`.

    Attributes
    ----------
    valid
        Whether no problem was found.
    epsilon
        The epsilon of each accountant, recomputed; None where an accountant cannot compute it.
    delta
        The delta of the guarantee.
    problems
        The reasons why the model is not valid, one sentence each.
    unchecked
        What could not be checked, one sentence each.
    bound
        Whether the ledger or a signature proves that the files are those that were released.
    signed
        Whether the owner of the key signed these files; None if no key was given.
    certified
        Whether the result is valid and calls itself certified (no seed, no flaw, a reviewed schema).
    reason
        Why a valid result is not certified, in words; empty for other results.
    """

    valid: bool
    epsilon: dict[str, float | None]
    delta: float
    problems: list[str]
    unchecked: list[str]
    bound: bool
    signed: bool | None
    certified: bool
    reason: str = ""

    def _facts(self) -> dict[str, Any]:
        state = {"valid": self.valid, "certified": self.certified, "bound": self.bound, "signed": self.signed}
        return {**state, "epsilon": self.epsilon.get("pld"), "delta": self.delta, "problems": len(self.problems)}

    def _words(self) -> str:
        return " ".join(f"{sentence[:1].upper()}{sentence[1:]}." for sentence in self.problems)

    def json(self) -> dict[str, Any]:
        """Return the fields of `privaware verify --json`."""
        return dict(vars(self))


def verify(model: str | Path, *, ledger: str | Path | None = None, key: str | Path | None = None) -> Verdict:
    """Recompute the guarantee of a released model, and check its files.

    Parameters
    ----------
    model
        A model folder, or a folder that `select`, `crossover`, `audit` or a pilot of `advise` wrote. If its files
        cannot be read, `WrongInput` is raised.
    ledger
        The ledger of the data set. With it, the hash chain, the charge and the hashes of all files are checked. Without
        it they are not, even if a ledger lies in the folder.
    key
        A PEM file with an Ed25519 public key. With it, the signature is checked.

    Returns
    -------
    Verdict
        Whether the model is `valid`, the `problems` that were found, and the recomputed epsilons.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from privaware import fit
    >>> with TemporaryDirectory() as folder:
    ...     released = fit("wisconsin", epsilon=1.0, learner="majority", out=f"{folder}/model")
    ...     verdict = verify(f"{folder}/model", ledger=f"{folder}/model/run.ledger")
    >>> verdict.valid, verdict.certified, verdict.bound
    (True, True, True)
    """
    expect_path("a model folder", model)
    if ledger is not None:
        expect_path("a ledger", ledger)
    if key is not None:
        expect_path("a public key", key)
    folder = Path(model)
    name = result_name(folder)
    subject = _model(folder) if name is None else _result(folder / name)
    signature = against_signature(folder, key, None if ledger is None else Path(ledger), subject.claim)
    checks = [*subject.checks, signature]
    if ledger is None:
        checks.append(Check(unchecked=[SIGNED_ALONE if signature.bound else ALONE]))
    else:
        checks.append(against_ledger(folder, Path(ledger), subject.claim))
    problems = [problem for check in checks for problem in check.problems]
    return Verdict(
        valid=not problems,
        epsilon=subject.priced.accountants,
        delta=subject.delta,
        problems=list(dict.fromkeys(problems)),
        unchecked=[for_caller(sentence) for check in checks for sentence in check.unchecked],
        bound=not problems and any(check.bound for check in checks),
        signed=None if key is None else signature.bound,
        certified=subject.certified and not problems,
        reason="" if subject.certified or problems else subject.reason,
    )


@dataclass(frozen=True, kw_only=True)
class _Subject:
    """What `verify` knows of a folder before it reads the ledger and the signature.

    `delta` is stated in the folder. `certified` says whether the folder calls its result certified; for a model, the
    schema must be reviewed too. `reason` says why a result may not be certified. `priced` has the epsilon recomputed
    from the events in the folder. `checks` compare the other statements in the folder with these events. `claim` is
    compared with the ledger and the signature.
    """

    delta: float
    certified: bool
    reason: str
    priced: Priced
    checks: tuple[Check, ...]
    claim: Claim


def _model(folder: Path) -> _Subject:
    released = loaded(folder)
    card = released.card
    guarantee, parts = card.guarantee, card.events
    if not math.isfinite(guarantee.epsilon) or guarantee.delta == 0:
        raise WrongInput(
            "model.json: expected a finite epsilon and delta in (0, 1), "
            f"got {guarantee.epsilon!r} and {guarantee.delta!r}"
        )
    event = sum((part.event for part in parts), start=NOTHING)
    priced = price(event, guarantee.delta)
    problems = [
        *filter(None, [changed_tensors(folder, card)]),
        *wrong_prices(guarantee.epsilon, guarantee.delta, parts, priced),
        *wrong_accountants(card, priced),
        *wrong_words(card, event),
    ]
    return _Subject(
        delta=guarantee.delta,
        certified=guarantee.certified and card.schema.reviewed,
        reason=UNCERTIFIED if guarantee.seed is None else SEEDED,
        priced=priced,
        checks=(Check(problems=problems), wrong_report(folder, card, released.tensors)),
        claim=Claim(release="model", entry=card.ledger.entry, run=card.ledger.run, event=event, facts=guarantee.json()),
    )


def _result(path: Path) -> _Subject:
    result = ResultFile.read(path)
    event = sum((part.event for part in result.events), start=NOTHING)
    priced = price(event, result.delta)
    problems = [
        *wrong_prices(result.epsilon, result.delta, result.events, priced),
        *wrong_plan(result.plan, result.epsilon, result.delta),
    ]
    if result.certified and result.seed is not None:
        problems.append("the result is called certified although its run was seeded")
    return _Subject(
        delta=result.delta,
        certified=result.certified,
        reason=UNCERTIFIED if result.seed is None else SEEDED,
        priced=priced,
        checks=(Check(problems=problems),),
        claim=Claim(release=path.stem, entry=result.ledger, run=None, event=event, facts=result.facts),
    )
