"""The guarantee in words: one plain sentence, and the facts that the guarantee takes as public or trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

from privaware.events import Event, Sampled, leaves
from privaware.mechanism import Mechanism, unit
from privaware.schema import Schema

__all__ = [
    "CHOSEN_WITHOUT_NOISE",
    "UNREVIEWED",
    "PricedPlan",
    "assumptions",
    "earlier_sentence_of",
    "guarantee_sentence",
    "sampler_sentence",
    "sentence_of",
]

UNREVIEWED = "ranges and categories were read from the rows without noise, and nobody has reviewed them"
"""Reason why the guarantee of a model with a drafted schema holds only conditionally."""
CHOSEN_WITHOUT_NOISE = "the settings were chosen on the same rows without noise, for comparison only"
"""Flaw of a model whose columns or settings were chosen by the standard workflow."""
WEAK_EPSILON = 10.0
"""Epsilon above which a guarantee is called weak."""

LEARNED_ELSEWHERE = {
    "sentences": "the text that the network all-MiniLM-L6-v2 was trained on; if that text contains rows of this data "
    "set, the guarantee does not cover what the network learned from them",
    "extractor": "the photographs of ImageNet that the network EfficientNet-Lite0 was trained on; if they "
    "contain images "
    "of this data set, the guarantee does not cover what the network learned from them",
}
"""For each pretrained feature, the public data that it was trained on."""


class PricedPlan(Protocol):
    """The attributes of a plan (`workflow/run/plan.py`) that a guarantee and a model card read."""

    @property
    def learner(self) -> str: ...
    @property
    def mechanism(self) -> Mechanism[Any]: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def parts(self) -> tuple[tuple[str, Event], ...]: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...
    @property
    def bounds(self) -> dict[str, Any]: ...
    @property
    def sampler(self) -> str: ...
    @property
    def sentences(self) -> list[str]: ...
    @property
    def flaw(self) -> str: ...


def guarantee_sentence(plan: PricedPlan, seed: int | None, *, what: str = "this model") -> str:
    """Return the meaning of a guarantee in one plain sentence.

    Parameters
    ----------
    plan
        The plan that was run.
    seed
        The seed of the run, or None.
    what
        The thing that was released, such as "these columns".

    Returns
    -------
    str
        The sentence of `sentence_of` for this plan.
    """
    return sentence_of(plan.schema, plan.epsilon, plan.delta, seed=seed, flaw=plan.flaw, what=what)


def sentence_of(
    schema: Schema, epsilon: float, delta: float, *, seed: object = None, flaw: str = "", what: str = "this model"
) -> str:
    """Return the sentence of a guarantee from the facts that it states.

    Parameters
    ----------
    schema
        The schema, for the unit, the neighbouring relation and whether it was reviewed.
    epsilon, delta
        The guarantee.
    seed
        The seed of the run, if there was one.
    flaw
        Why the result is not private, if it is not.
    what
        The thing that was released, such as "these columns".

    Returns
    -------
    str
        One sentence, and one more for an unreviewed schema or a weak guarantee.
    """
    start = ""
    if seed is not None:
        start = "SEEDED, NOT FOR RELEASE: for anybody who does not know the seed, "
    if flaw:
        start = f"NOT PRIVATE: {flaw}. Apart from that, "
    change = _change(schema)
    sentence = (
        f"{start}{change if start else change[0].upper() + change[1:]} changes the probability of "
        f"every outcome computed from {what} "
        f"by at most a factor of {math.exp(min(epsilon, 700.0)):.3g} (epsilon {epsilon:.4g}), plus {delta:g} (delta)."
    )
    if epsilon > WEAK_EPSILON:
        sentence += f" This is a weak guarantee, because epsilon is above {WEAK_EPSILON:g}."
    return (
        sentence
        if schema.reviewed
        else f"{sentence} The guarantee treats the schema as public, although its {UNREVIEWED}."
    )


def _change(schema: Schema) -> str:
    """Return the change between two neighbouring data sets, such as "adding or removing any one row"."""
    if schema.unit == "label":
        return "changing the label of any one row"
    unit = "any one row" if schema.unit == "row" else f"all rows of any one {schema.unit}"
    return f"{'replacing' if schema.relation == 'replace_one' else 'adding or removing'} {unit}"


def earlier_sentence_of(schema: Schema, epsilon: float, delta: float, *, seed: object = None, flaw: str = "") -> str:
    """Return the sentence that earlier versions stored in model.json for the same facts.

    `verify` compares the stored sentence literally, so this wording must not change.
    """
    whom = {"row": "any one row", "label": "the label of any one row"}.get(
        schema.unit, f"all rows of any one {schema.unit}"
    )
    verb = "was" if schema.unit in ("row", "label") else "were"
    replaced = schema.relation == "replace_one" or schema.unit == "label"
    change = f"{verb} replaced" if replaced else f"{verb} in the data or not"
    start = "SEEDED, NOT FOR RELEASE: without the seed, who" if seed is not None else "Who"
    if flaw:
        start = f"NOT PRIVATE: {flaw}. But for that, who"
    read_off = "; private given bounds and categories read off the rows, which nobody has reviewed"
    return (
        f"{start}ever sees this model learns little about whether {whom} {change}: "
        f"no conclusion becomes more than {math.exp(min(epsilon, 700.0)):.3g} times as likely "
        f"(epsilon {epsilon:.4g}), except with a chance of {delta:g} (delta){'' if schema.reviewed else read_off}."
    )


def sampler_sentence(event: Event) -> str:
    """Return how rows are sampled at each step, in words.

    Parameters
    ----------
    event
        The event of all releases.

    Returns
    -------
    str
        The sampling, without a full stop.
    """
    rates = {part.rate for part, _ in leaves(event) if isinstance(part, Sampled)}
    if rates:
        shown = ", ".join(f"{rate:g}" for rate in sorted(rates))
        return f"Poisson samples: each row is in a step with probability {shown}, independently"
    return "every row takes part in every step"


def assumptions(plan: PricedPlan) -> tuple[str, ...]:
    """Return the facts that the guarantee takes as public or trusted.

    Parameters
    ----------
    plan
        The plan that was run.

    Returns
    -------
    tuple of str
        One sentence for each fact.
    """
    public = [f"public: {fact}" for fact in plan.schema.assumed]
    public.append("public: the schema, the declared number of rows and every setting in the plan")
    if unit(plan.mechanism) == "label":
        public.append("public: all features; only labels are protected")
    public += [f"public: {LEARNED_ELSEWHERE[name]}" for name in _features(plan) if name in LEARNED_ELSEWHERE]
    return (*public, "trusted: this machine, its random generator, and double-precision arithmetic")


def _features(plan: PricedPlan) -> list[str]:
    """Return the names of the features of a plan's learner."""
    features = plan.settings.get("features") or ()
    return [str(each.get("name")) if isinstance(each, Mapping) else str(each) for each in features]
