"""The guarantee in words: what it means in one plain sentence, and what it takes as public or trusted."""

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
    "guarantee_sentence",
    "sampler_sentence",
    "sentence_of",
]

UNREVIEWED = "private given bounds and categories read off the rows"
"""What the guarantee of a model says whose schema is a draft that its owner has not reviewed."""
CHOSEN_WITHOUT_NOISE = "the settings were chosen on the same rows without noise, for comparison only"
"""The flaw of the standard workflow of a search."""

LEARNED_ELSEWHERE = {
    "sentences": "the text that the network all-MiniLM-L6-v2 learned from; should some of these very rows have been in "
    "it, what the network learned from them is not covered",
    "extractor": "the photographs of ImageNet that the network EfficientNet-Lite0 learned from; should some of these "
    "very images have been among them, what the network learned from them is not covered",
}
"""What features learned from that is not among the rows."""


class PricedPlan(Protocol):
    """What a guarantee and a model card take from a plan (`workflow/_plan.py`)."""

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
    """What the guarantee of `what` means, in one plain sentence."""
    return sentence_of(plan.schema, plan.epsilon, plan.delta, seed=seed, flaw=plan.flaw, what=what)


def sentence_of(
    schema: Schema, epsilon: float, delta: float, *, seed: object = None, flaw: str = "", what: str = "this model"
) -> str:
    """The same from the facts that it states."""
    whom = {"row": "any one row", "label": "the label of any one row"}.get(
        schema.unit, f"all rows of any one {schema.unit}"
    )
    verb = "was" if schema.unit in ("row", "label") else "were"
    replaced = schema.relation == "replace_one" or schema.unit == "label"
    change = f"{verb} replaced" if replaced else f"{verb} in the data or not"
    start = "SEEDED, NOT FOR RELEASE: without the seed, who" if seed is not None else "Who"
    if flaw:
        start = f"NOT PRIVATE: {flaw}. But for that, who"
    condition = "" if schema.reviewed else f"; {UNREVIEWED}, which nobody has reviewed"
    return (
        f"{start}ever sees {what} learns little about whether {whom} {change}: "
        f"no conclusion becomes more than {math.exp(min(epsilon, 700.0)):.3g} times as likely "
        f"(epsilon {epsilon:.4g}), except with a chance of {delta:g} (delta){condition}."
    )


def sampler_sentence(event: Event) -> str:
    """How rows are sampled at each step, in words."""
    rates = {part.rate for part, _ in leaves(event) if isinstance(part, Sampled)}
    if rates:
        shown = ", ".join(f"{rate:g}" for rate in sorted(rates))
        return f"Poisson samples: each row is in a step with probability {shown}, independently"
    return "every row takes part in every step"


def assumptions(plan: PricedPlan) -> tuple[str, ...]:
    """What the guarantee takes as public or trusted."""
    public = [f"public: {fact}" for fact in plan.schema.assumed]
    public.append("public: the schema, the declared number of rows and every setting in the plan")
    if unit(plan.mechanism) == "label":
        public.append("public: all features; only labels are protected")
    public += [f"public: {LEARNED_ELSEWHERE[name]}" for name in _features(plan) if name in LEARNED_ELSEWHERE]
    return (*public, "trusted: this machine, its random generator, and double-precision arithmetic")


def _features(plan: PricedPlan) -> list[str]:
    """The names of the features that a plan's learner takes."""
    features = plan.settings.get("features") or ()
    return [str(each.get("name")) if isinstance(each, Mapping) else str(each) for each in features]
