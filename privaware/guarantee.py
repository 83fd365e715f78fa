"""The guarantee in words: one plain sentence, and the facts that the guarantee takes as public or trusted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from privaware._rounded import percent, rounded_up
from privaware.accounting import TradeOff, trade_off
from privaware.errors import PrivawareError
from privaware.events import Event, Sampled, leaves, nested
from privaware.mechanism import Mechanism, unit
from privaware.schema import Schema

__all__ = [
    "CHOSEN_WITHOUT_NOISE",
    "UNREVIEWED",
    "AttackRates",
    "PricedPlan",
    "assumptions",
    "attack_rates",
    "attacker_sentence",
    "earlier_sentences_of",
    "feature_names",
    "guarantee_sentence",
    "protection",
    "earlier_sampler_sentence",
    "sampler_sentence",
    "sentence_of",
]

UNREVIEWED = "ranges and categories were read from the rows without noise, and nobody has reviewed them"
"""Reason why the guarantee of a model with a drafted schema holds only conditionally."""
CHOSEN_WITHOUT_NOISE = "the settings were chosen on the same rows without noise, for comparison only"
"""Flaw of a model whose columns or settings were chosen without noise (`--workflow standard`)."""
STRONG_EPSILON = 1.0
"""Largest epsilon of a guarantee that is called strong."""
MODERATE_EPSILON = 10.0
"""Largest epsilon of a guarantee that is called moderate; above it a guarantee is called weak."""
LARGEST_EXPONENT = 700.0
"""Largest epsilon for which exp(epsilon) is computed; exp(epsilon) overflows a float from about 709.8 on."""
_UNREVIEWED_SENTENCE = f"The guarantee treats the schema as public, although its {UNREVIEWED}."

LEARNED_ELSEWHERE = {
    "sentences": "the text that the network all-MiniLM-L6-v2 was trained on; if that text contains rows of this data "
    "set, the guarantee does not cover what the network learned from them",
    "extractor": "the photographs of ImageNet that the network EfficientNet-Lite0 was trained on; if they contain "
    "images of this data set, the guarantee does not cover what the network learned from them",
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
    @property
    def overlap(self) -> str: ...
    @property
    def data(self) -> Mapping[str, Any]: ...
    @property
    def considered(self) -> tuple[Mapping[str, Any], ...]: ...


def guarantee_sentence(plan: PricedPlan, seed: int | None, *, what: str = "this model") -> str:
    """Return the meaning of a guarantee in plain words.

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
        The sentences of `sentence_of` for the schema, epsilon and delta of the plan, and for what weakens the
        guarantee: a seed, the reason why the plan is not private (`flaw`), and other releases of the same rows
        (`overlap`).
    """
    return sentence_of(
        plan.schema, plan.epsilon, plan.delta, seed=seed, flaw=plan.flaw, overlap=plan.overlap, what=what
    )


def sentence_of(
    schema: Schema,
    epsilon: float,
    delta: float,
    *,
    seed: object = None,
    flaw: str = "",
    overlap: str = "",
    what: str = "this model",
) -> str:
    """Return the one to three sentences of a guarantee from the facts that they state.

    Parameters
    ----------
    schema
        The schema, for the unit, the neighbouring relation and whether it was reviewed.
    epsilon, delta
        The guarantee.
    seed
        The seed of the run, if there was one.
    flaw
        The reason why the result is not private; empty if it is private.
    overlap
        A sentence about other releases of the same rows that are not in the same ledger, if there are any.
    what
        The thing that was released, such as "these columns".

    Returns
    -------
    str
        One sentence, one more about the strength of the guarantee, and one more for an unreviewed schema. With a seed,
        a flaw or an unreviewed schema the strength is stated only if it is weak. With `overlap` these sentences follow
        "NOT CERTIFIED:", the sentence `overlap` and "For this release alone:".
    """
    numbers = _Numbers(factor=_factor(epsilon), epsilon=rounded_up(epsilon), delta=rounded_up(delta))
    sentence = _statement(schema, numbers, seed, flaw, what)
    whole = seed is None and not flaw and schema.reviewed
    if whole or protection(epsilon) == "weak":
        sentence += f" {_protection_sentence(epsilon)}"
    if not schema.reviewed:
        sentence += f" {_UNREVIEWED_SENTENCE}"
    return f"NOT CERTIFIED: {overlap}. For this release alone: {sentence}" if overlap else sentence


@dataclass(frozen=True, kw_only=True)
class _Numbers:
    """The numbers of a guarantee as text; `factor` is exp(epsilon)."""

    factor: str
    epsilon: str
    delta: str


def _factor(epsilon: float) -> str:
    """Return exp(`epsilon`) as text, rounded up; for `epsilon > LARGEST_EXPONENT` return the formula as text."""
    return rounded_up(math.exp(epsilon), 3) if epsilon <= LARGEST_EXPONENT else f"exp({rounded_up(epsilon)})"


def _statement(schema: Schema, numbers: _Numbers, seed: object, flaw: str, what: str) -> str:
    """Return the first sentence of a guarantee of `what`, the thing released, that states `numbers`.

    `seed` and `flaw` are as for `sentence_of`; if there are both, the sentence names only the flaw.
    """
    start = "" if seed is None else "SEEDED, NOT FOR RELEASE: for anybody who does not know the seed, "
    if flaw:
        start = f"NOT PRIVATE: {flaw}. Apart from that, "
    change = _change(schema)
    return (
        f"{start}{change if start else change[0].upper() + change[1:]} changes the probability of every outcome "
        f"computed from {what} by at most a factor of {numbers.factor} (epsilon {numbers.epsilon}), "
        f"plus {numbers.delta} (delta)."
    )


def protection(epsilon: float) -> str:
    """Return the strength of a guarantee in one word: every page, card and line on the terminal uses these words.

    Parameters
    ----------
    epsilon
        The epsilon of all releases together.

    Returns
    -------
    str
        "strong" for `epsilon` up to 1 (`STRONG_EPSILON`), "moderate" up to 10 (`MODERATE_EPSILON`), and "weak" above.

    Examples
    --------
    >>> protection(1.0), protection(3.0), protection(100.0)
    ('strong', 'moderate', 'weak')
    """
    return "strong" if epsilon <= STRONG_EPSILON else "moderate" if epsilon <= MODERATE_EPSILON else "weak"


def _protection_sentence(epsilon: float) -> str:
    reasons = {
        "strong": f"epsilon is at most {STRONG_EPSILON:g}",
        "moderate": f"epsilon is above {STRONG_EPSILON:g} and at most {MODERATE_EPSILON:g}",
        "weak": f"epsilon is above {MODERATE_EPSILON:g}",
    }
    return f"This is a {protection(epsilon)} guarantee, because {reasons[protection(epsilon)]}."


@dataclass(frozen=True, eq=False)
class AttackRates:
    """Upper bounds on the true positive rates of any membership attack.

    `trade_off` has the guarantees (epsilon, delta) from which the bounds follow. `of_events` is True if some of these
    guarantees were computed from the events. It is False if the only guarantee is the epsilon and delta of all releases
    together.
    """

    trade_off: TradeOff
    of_events: bool

    def at(self, fprs: np.ndarray) -> np.ndarray:
        """Return the bound on the true positive rate at each false positive rate in `fprs`."""
        return self.trade_off.powers(fprs)

    @property
    def accuracy(self) -> float:
        """An upper bound on the probability of a correct guess about a candidate that is a member with probability 1/2.

        By one guarantee (e, d), the true positive rate minus the false positive rate of any attack is at most
        `(exp(e) - 1 + 2 * d) / (exp(e) + 1)`. The smallest of these bounds over all guarantees counts.
        """
        epsilons, deltas = self.trade_off.epsilons, self.trade_off.deltas
        advantage = np.tanh(epsilons / 2) + 2 * deltas / (np.exp(epsilons) + 1)
        return 0.5 + min(1.0, float(advantage.min())) / 2


def attack_rates(event: Event, epsilon: float, delta: float) -> AttackRates:
    """Compute bounds on the rates of an attack on the releases `event`, whose guarantee is (epsilon, delta).

    Parameters
    ----------
    event
        All releases.
    epsilon, delta
        The guarantee of all releases. The bounds follow from it alone if the trade-off function of `event` cannot be
        computed.

    Returns
    -------
    AttackRates
        The bounds. An `epsilon` above `LARGEST_EXPONENT` counts as `LARGEST_EXPONENT`.
    """
    epsilons, deltas = np.array([min(epsilon, LARGEST_EXPONENT)]), np.array([delta])
    try:
        curve = trade_off(event)
    except PrivawareError:
        return AttackRates(TradeOff(epsilons, deltas), of_events=False)
    together = TradeOff(np.concatenate([curve.epsilons, epsilons]), np.concatenate([curve.deltas, deltas]))
    return AttackRates(together, of_events=True)


def attacker_sentence(rates: AttackRates, schema: Schema, *, certified: bool = True) -> str:
    """Return the success of the best possible attacker in one sentence.

    Parameters
    ----------
    rates
        The largest rates of an attack.
    schema
        The schema, for the unit and the neighbouring relation.
    certified
        Whether the guarantee is certified.

    Returns
    -------
    str
        The largest fraction of correct guesses; or, if it rounds to 100%, that the attacker may always be right. A
        sentence that the bound is not certified follows unless `certified`.
    """
    right = percent(rates.accuracy)
    guesser = f"an attacker who must guess {_secret(schema)}"
    sentence = f"{guesser[0].upper()}{guesser[1:]} is right at most {right} of the time; a random guess is right 50%."
    if right == "100%":
        sentence = f"The guarantee does not exclude that {guesser} is always right."
    return sentence if certified else f"{sentence} This bound is not certified."


def _secret(schema: Schema) -> str:
    """Return what a membership attacker guesses, as a clause, such as "whether a given row was in the data"."""
    if schema.unit == "label":
        return "whether the label of a given row is the true one"
    whom = "a given row was" if schema.unit == "row" else f"the rows of a given {schema.unit} were"
    return f"whether {whom} {'replaced' if schema.relation == 'replace_one' else 'in the data'}"


def _change(schema: Schema) -> str:
    """Return the difference between two neighbouring data sets in words, such as "adding or removing any one row"."""
    if schema.unit == "label":
        return "changing the label of any one row"
    unit = "any one row" if schema.unit == "row" else f"all rows of any one {schema.unit}"
    return f"{'replacing' if schema.relation == 'replace_one' else 'adding or removing'} {unit}"


def earlier_sentences_of(
    schema: Schema, epsilon: float, delta: float, *, seed: object = None, flaw: str = ""
) -> tuple[str, str]:
    """Return the two sentences that earlier versions stored in model.json for the same facts, the oldest first.

    The arguments are as for `sentence_of`. `verify` compares the stored sentence literally, so this wording must not
    change.
    """
    factor = f"{math.exp(min(epsilon, 700.0)):.3g}"
    rounded = _Numbers(factor=factor, epsilon=f"{epsilon:.4g}", delta=f"{delta:g}")
    later = _statement(schema, rounded, seed, flaw, "this model")
    if epsilon > 10:
        later += " This is a weak guarantee, because epsilon is above 10."
    return (
        _oldest_sentence_of(schema, rounded, seed, flaw),
        later if schema.reviewed else f"{later} {_UNREVIEWED_SENTENCE}",
    )


def _oldest_sentence_of(schema: Schema, numbers: _Numbers, seed: object, flaw: str) -> str:
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
        f"no conclusion becomes more than {numbers.factor} times as likely "
        f"(epsilon {numbers.epsilon}), except with a chance of {numbers.delta} (delta)"
        f"{'' if schema.reviewed else read_off}."
    )


def sampler_sentence(event: Event) -> str:
    """Return in words how rows are sampled at each step.

    Parameters
    ----------
    event
        The event of all releases.

    Returns
    -------
    str
        The sampling rates of all Poisson samples in `event`, or, if it has none, that every row takes part in every
        step; without a full stop.
    """
    words = _sampled_at({part.rate for part in nested(event) if isinstance(part, Sampled)})
    return words or "every row of the training takes part in every step"


def earlier_sampler_sentence(event: Event) -> str:
    """Return how rows are sampled, in the words of model cards of version 0.1.

    Unlike `sampler_sentence`, it ignores samples inside events other than `Repeated` and `Composed`.
    """
    words = _sampled_at({part.rate for part, _ in leaves(event) if isinstance(part, Sampled)})
    return words or "every row takes part in every step"


def _sampled_at(rates: set[float]) -> str:
    """Return the sentence about Poisson samples at these `rates`; an empty string if there are no rates."""
    shown = ", ".join(f"{rate:g}" for rate in sorted(rates))
    return f"Poisson samples: each row is in a step with probability {shown}, independently" if rates else ""


ROWS = "the number of rows"
"""The public fact about the number of rows, as schemas and guarantees state it."""


def assumptions(plan: PricedPlan) -> tuple[str, ...]:
    """Return the facts that the guarantee takes as public or trusted.

    Parameters
    ----------
    plan
        The plan that was run.

    Returns
    -------
    tuple of str
        One phrase for each fact, which begins with "public: " or "trusted: ". Public are facts of the schema, the
        number of rows, the settings of the plan, all features if only labels are protected, and the data on which a
        pretrained feature was trained. Trusted are the machine, its random generator and its arithmetic.
    """
    assumed = plan.schema.assumed
    rows = max((fact for fact in assumed if fact == ROWS or fact.startswith(f"{ROWS},")), key=len, default=ROWS)
    public = [f"public: {fact}" for fact in assumed if fact not in (ROWS, rows)]
    given = "the schema, " if plan.schema.bounded else "" if assumed else "what the schema declares, "
    public.append(f"public: {given}{rows}{',' if rows != ROWS else ''} and every setting in the plan")
    if unit(plan.mechanism) == "label":
        public.append("public: all features; only labels are protected")
    named = feature_names(plan.settings.get("features") or ())
    public += [f"public: {LEARNED_ELSEWHERE[name]}" for name in named if name in LEARNED_ELSEWHERE]
    return (*public, "trusted: this machine, its random generator, and double-precision arithmetic")


def feature_names(features: Iterable[Any]) -> list[str]:
    """Return the names of described features and of the features that are nested in them.

    A feature is described by its name, or by a mapping with the name under "name". The feature `mixed` has nested
    descriptions: one under "text" for texts, and a list under "image" for images. Their names come last.
    """
    described = [each if isinstance(each, Mapping) else {"name": each} for each in features]
    nested = [inner for each in described for inner in (each.get("text") or {}, *(each.get("image") or ())) if inner]
    return [str(each.get("name")) for each in described] + (feature_names(nested) if nested else [])
