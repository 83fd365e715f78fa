"""Sentences of pages and cards that depend on the facts of a model card; each is computed here, once.

`tests/report/test_sentences.py` has a card for which each sentence is said, and a card for which it is not.
"""

from __future__ import annotations

from typing import Any

from privaware import registry
from privaware.card import ModelCard
from privaware.guarantee import CHOSEN_WITHOUT_NOISE, earlier_sentences_of, protection, sentence_of
from privaware.learners import find_learner
from privaware.report import _words
from privaware.schema import NOT_USED

ORIGINS = {
    "built-in": "part of the built-in data set",
    "declared": "declared by the owner",
    "estimated": "estimated from the rows with noise, as part of the budget, so it needs no review",
    "given": 'without ranges or categories; only the facts listed under "Assumed public or trusted" are given',
    "drafted": "read from the rows without noise; nobody has reviewed it",
}
"""Where a schema comes from, in words, by the `origin` on a card."""
CLASSES = {"strong": "yes", "moderate": "fair", "weak": "no"}
"""The colour class of a page by the strength of the guarantee."""


def guarantee_words(card: ModelCard) -> str:
    """Return the sentence of the guarantee in the wording of this version.

    If the card stores the wording of an earlier version, the sentence is made again from the facts of the card. Any
    other stored sentence is returned, with its numbers formatted by `tidy`, even if it contradicts the card: `verify`
    reports that.
    """
    guarantee = card.guarantee
    flaw = CHOSEN_WITHOUT_NOISE if card.search.get("workflow") == "standard" else ""
    facts: dict[str, Any] = {"epsilon": guarantee.epsilon, "delta": guarantee.delta, "seed": guarantee.seed}
    if guarantee.sentence in earlier_sentences_of(card.schema, **facts, flaw=flaw):
        return sentence_of(card.schema, **facts, flaw=flaw, overlap=guarantee.overlap)
    return _words.tidy(guarantee.sentence, guarantee.epsilon)


def data_name(card: ModelCard) -> str:
    """Return the name of the data set; an empty text if an earlier version did not record it."""
    name = card.data.get("name")
    return " ".join(name.split()) if isinstance(name, str) else ""


def is_public_benchmark(card: ModelCard) -> bool:
    """Whether the model was trained on a built-in data set, which is public."""
    return card.data.get("origin") == "built-in"


def introduction(card: ModelCard, certified: bool) -> str:
    """Return the first sentences of a page: what the model predicts, from which data, and how it was trained.

    Unless `certified`, they do not mention differential privacy, and say that the guarantee is not certified.
    """
    schema, name = card.schema, data_name(card)
    rows = f"{schema.rows:,} rows"
    if schema.unit not in ("row", *_words.LABEL_UNITS):
        rows = f"at most {rows}, the first {f'{schema.cap:,} ' if schema.cap > 1 else ''}of each {schema.unit}"
    rows += ", some of them held out for the score" if card.score else ""
    rows = f" on rows of {name} ({rows})" if name else f" on {rows}"
    private = " under differential privacy" if certified else ""
    warning = "" if certified else " Its guarantee is not certified."
    return f"This model predicts {card.schema.target}. The learner {card.learner} was trained{rows}{private}.{warning}"


def protection_class(card: ModelCard, certified: bool) -> tuple[str, str]:
    """Return the strength of the guarantee in words, and the CSS class of its colour.

    They are ("strong", "yes"), ("moderate", "fair") or ("weak", "no") by the epsilon of the card, with the limits of
    `guarantee.protection`. Unless `certified`, the class is "no", and the word is "weak" for a weak guarantee, else
    "not certified".
    """
    word = protection(card.guarantee.epsilon)
    return (word, CLASSES[word]) if certified else ("weak" if word == "weak" else "not certified", "no")


def paid_bounds(card: ModelCard) -> bool:
    """Whether ranges and categories were released with part of the budget.

    This is so if the description of any release on the card contains "bound" or "schema".
    """
    return any("bound" in part.what.lower() or "schema" in part.what.lower() for part in card.events)


def origin_sentence(card: ModelCard) -> str:
    """Return the words of `ORIGINS` that say where the schema comes from, such as "declared by the owner".

    A schema that is not reviewed counts as "drafted". Any other schema has the `origin` that the card records. If the
    card records no known origin, the schema counts as "estimated" if part of the budget was spent on bounds, and
    otherwise as declared or built in. If part of the budget was spent on bounds that a declared schema leaves open, the
    words also say so.
    """
    origin = card.data.get("origin")
    if not card.schema.reviewed:
        origin = "drafted"
    elif origin not in ORIGINS:
        origin = "estimated" if paid_bounds(card) else ""
    words = ORIGINS.get(str(origin), "declared by the owner, or part of a built-in data set")
    if origin == "declared" and paid_bounds(card):
        words += "; what it leaves open was estimated with part of the budget"
    return words


def unused_columns(card: ModelCard) -> list[str]:
    """Return the names of the columns that the model does not read.

    They are the columns recorded as unused, the columns of a kind in `NOT_USED`, and all categories if the feature
    `drop` is applied.
    """
    recorded = card.data.get("unused")
    names = [name for name in recorded if isinstance(name, str)] if isinstance(recorded, list) else []
    dropped = any(feature.get("name") == "drop" for feature in card.features)
    names += [
        column.name
        for column in card.schema.columns
        if column.kind in NOT_USED or (dropped and column.kind == "category")
    ]
    return list(dict.fromkeys(names))


def bounds_sentence(card: ModelCard) -> str:
    """Return words that say where ranges and categories come from, and whether their cost is part of epsilon."""
    if not card.schema.reviewed:
        return "Ranges and categories were read from the rows without noise. Their cost is not part of epsilon."
    if paid_bounds(card):
        return "Ranges and categories were released under differential privacy. Their cost is part of epsilon."
    if card.data.get("origin") == "given" or card.schema.form != "table":
        return "The model needs no ranges or categories of the data."
    return "Ranges and categories were declared; they were not computed from the rows of this run."


def selection_sentence(card: ModelCard) -> str:
    """Return sentences about an earlier run that selected the columns, whose cost is not part of the model's epsilon.

    The text is empty if the card names no such run.
    """
    selected = card.data.get("selected")
    if not isinstance(selected, dict):
        return ""
    price = _price(selected)
    how = f"with {price}" if price else "without a guarantee"
    alone = " The ledger of this model had no charge before, so it does not count that selection."
    return (
        f"The columns of this model were selected by an earlier run, {how}. This is not part of the epsilon of the "
        f"model, and adds to it if the rows are the same.{alone if not ledger_sentence(card) else ''}"
    )


def ledger_sentence(card: ModelCard) -> str:
    """Return a sentence with the number and the total cost of all charges in the ledger when the model was charged.

    The text is empty if the card does not record them, because the ledger had no other charge.
    """
    total = card.data.get("ledger")
    if not isinstance(total, dict) or not (price := _price(total)):
        return ""
    return (
        f"When this model was charged, its ledger had {_words.setting(total.get('charges'))} charges; all of them "
        f"together have {price}."
    )


def _price(facts: dict[str, Any]) -> str:
    """Return the entries `epsilon` and `delta` of `facts` in words.

    The text is empty if a number is missing, negative or not a number.
    """
    epsilon, delta = facts.get("epsilon"), facts.get("delta")
    for part in (epsilon, delta):
        if isinstance(part, bool) or not isinstance(part, (int, float)) or not part >= 0:
            return ""
    return f"epsilon {_words.rounded_up(float(epsilon or 0))} at delta {_words.rounded_up(float(delta or 0))}"


def private_search(card: ModelCard) -> bool:
    """Whether a release of the card is a search on the private rows: its description contains "search with"."""
    return any("search with" in part.what for part in card.events)


def tuning_sentence(card: ModelCard) -> str:
    """Return words that say how hyper-parameters were chosen, and whether the cost of the choice is part of epsilon."""
    if card.search.get("workflow") == "standard":
        return (
            "Hyper-parameters or columns were chosen on the same rows without noise. The cost of this choice is not "
            "part of epsilon."
        )
    if private_search(card):
        return "Hyper-parameters were searched under differential privacy. The cost of the search is part of epsilon."
    if card.search:
        return "Hyper-parameters were searched on public rows, which has no privacy cost."
    chosen = "The policy chose them from public facts" if "policy" in card.settings else "The caller chose the learner"
    return f"This run did not tune hyper-parameters on the rows. {chosen}; settings that the caller gave are kept."


def accountants_sentence(card: ModelCard) -> str:
    """Return sentences with the epsilon of each accountant, and with the method whose epsilon is reported.

    One more sentence follows if both `pld` and `cf` computed epsilon and agree.
    """
    guarantee = card.guarantee
    known = {name: epsilon for name, epsilon in guarantee.accountants.items() if epsilon is not None}
    listed = ", ".join(f"{name} {_words.rounded_up(epsilon)}" for name, epsilon in known.items())
    sentences = [f"Accountants: {listed}."] if listed else []
    sentences.append(f"The reported epsilon is the result of {guarantee.method}.")
    if {"pld", "cf"} <= set(known) and agree(card):
        sentences.append("pld and cf are independent implementations and agree.")
    return " ".join(sentences)


def agree(card: ModelCard) -> bool:
    """Whether the epsilons of the accountants `pld` and `cf` differ by at most 0.5% of the larger one.

    The result is True if the epsilon of an accountant is missing.
    """
    pld, cf = card.guarantee.accountants.get("pld"), card.guarantee.accountants.get("cf")
    return pld is None or cf is None or abs(pld - cf) <= 0.005 * max(pld, cf)


def noise_sentence(card: ModelCard) -> str:
    """Return a sentence that says whether the operating system or a recorded seed keys the generator of the noise.

    It also says that noise is released on a lattice, that is, in multiples of a power of 2.
    """
    key = "the operating system" if card.guarantee.seed is None else "a recorded seed"
    return f"Noise is keyed by {key} and released on a lattice."


def arithmetic_sentence(card: ModelCard) -> str:
    """Return a sentence about the rounding of sums over rows, by the attribute `sums` of the learners of the card.

    If a search chose a learner, only this learner counts, and otherwise all learners that the card names. If `sums` is
    "exact" for every learner, the sums have no rounding error. If it is "bounded" for at least one, a bound on the
    rounding error is part of the sensitivity. Otherwise the text is empty.
    """
    point = card.search.get("point")
    chosen = point.get("learner") if isinstance(point, dict) else None
    names = [str(chosen)] if chosen else card.learner.split(" or ")
    known = registry.names("learners")
    stated = {getattr(find_learner(name), "sums", "") if name in known else "" for name in names}
    if stated == {"exact"}:
        return "Sums over rows have no rounding error."
    if "bounded" in stated:
        return (
            "Gradients are summed in floating point within groups of rows. A bound on the rounding error is part of "
            "the sensitivity."
        )
    return ""
