"""Recompute the statements of a released result from its events: its epsilon, its sentences and its report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from privaware import accounting, report
from privaware._rounded import rounded_up
from privaware._version import __version__
from privaware.card import ModelCard, PricedEvent
from privaware.errors import PrivawareError
from privaware.events import NOTHING, Composed, Disjoint, Event, Group, Laplace, Selected, nested
from privaware.guarantee import (
    CHOSEN_WITHOUT_NOISE,
    earlier_sampler_sentence,
    earlier_sentences_of,
    sampler_sentence,
    sentence_of,
)
from privaware.workflow._score import CONSTANT_SHARE
from privaware.workflow._score_cells import scored_words
from privaware.workflow.run.output import REPORT

SLACK = 1e-6
"""Relative rounding error by which a recomputed epsilon may exceed the stated epsilon."""
LOOSE = 0.01
"""Fraction of a stated epsilon by which it may exceed the recomputed epsilon before it counts as wrong."""
ACCOUNTANTS = ("pld", "cf", "rdp")
FOR_REPLACED_ROWS = ("release bounds", "release bins of numbers")
"""Releases whose cost is already computed for a replaced row; other releases count a replaced row as two rows."""


@dataclass(kw_only=True)
class Check:
    """What a check found: `problems` and `unchecked` are lists with a sentence for each item.

    `bound` says whether a ledger or a signature proves that the files are those that the run released.
    """

    problems: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    bound: bool = False


@dataclass(frozen=True, kw_only=True)
class Priced:
    """An event with the epsilons that this version computes for it.

    `accountants` holds the epsilon of each of `ACCOUNTANTS`, or None. `epsilon` is None if it cannot be computed, and
    then `problems` say why.
    """

    event: Event
    epsilon: float | None
    accountants: dict[str, float | None]
    problems: tuple[str, ...] = ()


def price(event: Event, delta: float) -> Priced:
    """Return `event` with its epsilon at `delta`; if it cannot be computed, with None and the reason in `problems`."""
    try:
        bounds: dict[str, Any] = accounting.bounds(event, delta)
        return Priced(
            event=event,
            epsilon=accounting.epsilon(event, delta),
            accountants={name: bounds.get(name) for name in ACCOUNTANTS},
        )
    except (PrivawareError, OverflowError) as problem:  # a repetition count with hundreds of digits overflows
        reason = str(problem) if isinstance(problem, PrivawareError) else "the events are too many to compute epsilon"
        return Priced(event=event, epsilon=None, accountants=dict.fromkeys(ACCOUNTANTS), problems=(reason,))


def wrong_prices(epsilon: float, delta: float, parts: Sequence[PricedEvent], priced: Priced) -> list[str]:
    """Return a sentence for each stated epsilon that is not the epsilon of its events, up to rounding (`_agree`).

    `epsilon` is the stated total, which must agree with `priced.epsilon`. An epsilon that one of `parts` states must be
    the cost of this part alone. If `priced.epsilon` is None, the problems of `priced` are returned instead.
    """
    if priced.epsilon is None:
        return list(priced.problems)
    problems = []
    if not _agree(epsilon, priced.epsilon, priced.event):
        problems.append(f"the events cost epsilon {priced.epsilon:.6g}, the model claims {epsilon:.6g}")
    for part in parts:
        stated, alone = part.epsilon, (priced if len(parts) == 1 else price(part.event, delta)).epsilon
        if stated is not None and alone is not None and not _agree(stated, alone, part.event):
            problems.append(f"{part.what:.80} costs epsilon {alone:.6g} alone, the model says {stated:.6g}")
    return problems


def wrong_accountants(card: ModelCard, priced: Priced) -> list[str]:
    """Return a sentence for each accountant whose epsilon in `priced` disagrees with the epsilon on the card.

    Return one more sentence if the card names an accountant as its method and has no epsilon by it.
    """
    guarantee, problems = card.guarantee, []
    for name, stated in guarantee.accountants.items():
        computed = priced.accountants.get(name)
        if stated is not None and computed is not None and not _agree(stated, computed, priced.event):
            problems.append(f"{name} says epsilon {computed:.6g}, but the model states {stated:.6g} for {name}")
    if guarantee.method in ACCOUNTANTS and guarantee.accountants.get(guarantee.method) is None:
        problems.append(f"the model names {guarantee.method} as its accountant and no epsilon by it")
    return problems


def _agree(stated: float, computed: float, event: Event) -> bool:
    """Whether `computed <= stated * (1 + SLACK)` and `stated * (1 - LOOSE) <= computed`.

    For private selection `stated` may exceed `computed` by more, because a later version may prove a smaller epsilon.
    """
    selects = any(isinstance(part, Selected) for part in nested(event))
    return computed <= stated * (1 + SLACK) and (selects or stated * (1 - LOOSE) <= computed)


def wrong_words(card: ModelCard, event: Event) -> list[str]:
    """Return a sentence for each place where words, plan, unit or score of `card` contradict its schema, event or seed.

    If the guarantee and the schema differ in unit, cap or relation, or a model is called certified although the card
    gives a reason against it (such as a seed), only these problems are returned.
    """
    guarantee, schema = card.guarantee, card.schema
    stated, declared = guarantee.json(), schema.json()
    problems = [
        f"the guarantee is for {name} {stated[name]!r:.80}, the schema for {declared[name]!r:.80}"
        for name in ("unit", "cap", "relation")
        if name in stated and stated[name] != declared[name]
    ]
    flaw = CHOSEN_WITHOUT_NOISE if card.search.get("workflow") == "standard" else ""
    seeded = "" if guarantee.seed is None else "its run was seeded"
    doubts = (seeded, flaw, guarantee.overlap) if guarantee.certified else ()
    problems += [f"the model is called certified although {doubt:.200}" for doubt in doubts if doubt]
    if problems:
        return problems
    facts: dict[str, Any] = {"epsilon": guarantee.epsilon, "delta": guarantee.delta, "seed": guarantee.seed}
    sentence = sentence_of(schema, **facts, flaw=flaw, overlap=guarantee.overlap)
    if guarantee.sentence not in (sentence, *earlier_sentences_of(schema, **facts, flaw=flaw)):
        problems.append(f"the sentence of the guarantee does not follow from its numbers; expected: {sentence:.300}")
    if guarantee.sampler not in (sampler_sentence(event), earlier_sampler_sentence(event)):
        problems.append(f"the events sample otherwise than the model says: {sampler_sentence(event):.200}")
    problems += wrong_plan(card.plan, guarantee.epsilon, guarantee.delta)
    return problems + _wrong_unit(card) + _wrong_score(card.score, card.events)


def wrong_plan(plan: Sequence[str], epsilon: float, delta: float) -> list[str]:
    """Return a sentence if the last sentence of `plan` does not end with this `epsilon` and `delta`.

    An empty `plan` is not a problem. The numbers may be rounded as in this version or as in earlier versions.
    """
    total = f"epsilon {rounded_up(epsilon)} at delta {rounded_up(delta)}"
    earlier = f"epsilon {epsilon:.4g} at delta {delta:g}"
    wrong = bool(plan) and not plan[-1].endswith((total, earlier))
    return [f"the plan ends with another cost than {total}"] if wrong else []


def _wrong_score(score: Mapping[str, Any], parts: Sequence[PricedEvent]) -> list[str]:
    """Return a sentence if a score is outside its own interval, or if no event of its own among `parts` paid for it.

    The event of a score is the last event of the release that trained the model and names the score. A Laplace event of
    another release, such as a count, does not pay for the score, even if its noise is the same.
    """
    if not score:
        return []
    numbers: list[Any] = [score.get(name) for name in ("epsilon", "low", "value", "high")]
    if not all(isinstance(number, (int, float)) for number in numbers):
        return ["the score has no epsilon, value or interval"]
    buys_constant = score.get("metric") == "mae" and "constant" in score
    epsilon = float(numbers[0]) * (1 - CONSTANT_SHARE if buys_constant else 1.0)
    problems = [] if all(map(_is_ordered, _estimates(score))) else ["the score is outside its own interval"]
    paid = [_last_event(part.event) for part in parts if part.what.endswith(scored_words("", str(score.get("metric"))))]
    if not any(
        isinstance(last, Laplace) and math.isclose(last.noise * epsilon, rows, rel_tol=SLACK) for last, rows in paid
    ):
        problems.append(f"no event pays for a score of epsilon {float(numbers[0]):.6g}")
    return problems


def _estimates(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every mapping in `value`, at any depth, that has the entries `low` and `high` of an interval."""
    if isinstance(value, Mapping) and {"low", "high"} <= set(value):
        yield value
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for entry in inner:
        yield from _estimates(entry)


def _is_ordered(estimate: Mapping[str, Any]) -> bool:
    """Whether the `value` (or `observed` rate) of an estimate is a number from its `low` to its `high`."""
    ends = [estimate["low"], estimate.get("value", estimate.get("observed")), estimate["high"]]
    return all(isinstance(end, (int, float)) for end in ends) and ends == sorted(ends)


def _last_event(event: Event) -> tuple[Event | None, int]:
    """Return the last event of a composed or disjoint event with two or more parts (else None), and its group size.

    The group size is the number of rows that one unit changes; it is 1 if `event` is no `Group`.
    """
    alone, rows = (event.event, event.size) if isinstance(event, Group) else (event, 1)
    last = alone.events[-1] if isinstance(alone, (Disjoint, Composed)) and len(alone.events) > 1 else None
    return (last.events[-1] if isinstance(last, Composed) and last.events else last), rows


def _wrong_unit(card: ModelCard) -> list[str]:
    """Return a sentence for each event of `card` whose group size is not the number of rows that one unit changes.

    A replaced row counts as two rows, except for the releases in `FOR_REPLACED_ROWS`, which may count it as one.
    Nothing is checked if a unit is one row that is added or removed, nor for label privacy, because a cost alone does
    not say whether it is for labels.
    """
    schema = card.schema
    halves, replaced = schema.unit_rows, schema.relation == "replace_one"
    size = 2 * halves if replaced else halves
    if schema.unit == "label" or size == 1:
        return []
    problems = []
    for part in card.events:
        sizes = {size, halves} if part.what in FOR_REPLACED_ROWS else {size}
        grouped = part.event.size if isinstance(part.event, Group) else 1
        if part.event != NOTHING and grouped not in sizes:
            problems.append(f"the cost of {part.what:.80} is not for neighbours that differ in {size} rows")
    return problems


def wrong_report(folder: Path, card: ModelCard, tensors: Mapping[str, np.ndarray]) -> Check:
    """Check that the report in `folder` is the report of this card and these tensors.

    It is unchecked if there is no report, if the epsilon is infinite, or if another version of privaware wrote the
    model, and the report has all required statements but differs otherwise. It is a problem if the report cannot be
    read, if a statement is missing, or if this version wrote the model and the text differs anywhere.
    """
    path = folder / REPORT
    if not path.is_file():
        return Check(unchecked=[f"there is no {REPORT}"])
    if not math.isfinite(card.guarantee.epsilon):
        return Check(unchecked=[f"{REPORT}, because the epsilon is not finite"])
    try:
        text, expected = report.page_text(path.read_bytes().decode("utf-8")), report.text(card, tensors)
    except OSError as problem:
        return Check(problems=[f"{REPORT} cannot be read: {problem.strerror or problem}"])
    except (PrivawareError, ValueError) as problem:
        return Check(problems=[f"{REPORT} is not the page of this model: {problem!s:.200}"])
    if text == expected:
        return Check()
    if missing := report.missing_statements(card, text):
        return Check(problems=[f"{REPORT} does not say what the events do: {missing[0]:.200}"])
    if card.version == __version__:
        pairs = enumerate(zip(text, expected, strict=False))
        at = next((at for at, (own, other) in pairs if own != other), min(len(text), len(expected)))
        near = slice(max(at - 40, 0), at + 40)
        return Check(
            problems=[f"{REPORT} is not the page of this model: expected {expected[near]!r}, got {text[near]!r}"]
        )
    return Check(unchecked=[f"{REPORT} is worded otherwise than this version words it"])
