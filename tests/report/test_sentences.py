"""Every sentence of page and cards that depends on a fact is said where the fact holds, and not where it does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest

from privaware import report
from privaware.card import ModelCard
from privaware.events import Gaussian, Laplace, Unproven, to_json
from privaware.guarantee import CHOSEN_WITHOUT_NOISE, earlier_sentences_of
from privaware.report._card_cyclonedx import cyclonedx_json
from privaware.report._card_facts import composition, paid_choices
from privaware.report._card_huggingface import huggingface_markdown
from privaware.report._card_nist import nist_markdown
from privaware.report._card_registry import registry_yaml
from privaware.report._risk import AuditRecord
from privaware.report._sentences import guarantee_words, protection_class
from privaware.schema import Column, Schema
from tests.report.pages import ENTRY, card_entries

Change = Callable[[dict[str, Any]], None]
AUDIT = AuditRecord(
    attack="one_run",
    epsilon_lower=0.7,
    epsilon_claimed=1.0,
    delta=1e-5,
    confidence=0.95,
    refuted=False,
    assumes="nothing",
    auc=0.6,
    roc=((0.1, 0.2), (1.0, 1.0)),
)
REFUTED = AuditRecord(**{**vars(AUDIT), "refuted": True})


def same(entries: dict[str, Any]) -> None:
    """Leave the card of `card_entries` as it is: a certified `linear` with a schema of unknown origin."""


def put(place: str, **values: Any) -> Change:
    """Change entries of an object of `model.json`, or of `model.json` itself if `place` is empty."""

    def change(entries: dict[str, Any]) -> None:
        (entries.setdefault(place, {}) if place else entries).update(values)

    return change


def both(*changes: Change) -> Change:
    def change(entries: dict[str, Any]) -> None:
        for each in changes:
            each(entries)

    return change


def released(what: str, event: Any = None, epsilon: float | None = 0.5) -> Change:
    """Add a release to the events."""

    def change(entries: dict[str, Any]) -> None:
        entries["events"].append({"what": what, "event": to_json(event or Laplace(noise=9.0)), "epsilon": epsilon})

    return change


def single(entries: dict[str, Any]) -> None:
    entries["events"] = entries["events"][1:]


def weak(entries: dict[str, Any]) -> None:
    entries["guarantee"]["epsilon"] = 100.0
    entries["guarantee"]["accountants"] = {"pld": 100.0, "cf": 99.9}
    entries["events"] = [{"what": "train", "event": to_json(Gaussian(noise=0.08)), "epsilon": 100.0}]


def with_schema(**facts: Any) -> Change:
    def change(entries: dict[str, Any]) -> None:
        entries["schema"] = replace(Schema.from_json(entries["schema"]), **facts).json()
        entries["guarantee"] |= {name: facts[name] for name in ("unit", "relation") if name in facts}

    return change


SEEDED = put("guarantee", seed=3)
DRAFTED = with_schema(reviewed=False)
STANDARD = put("", search={"workflow": "standard"})
UNCERTIFIED = put("guarantee", certified=False)
NO_LEDGER = put("", ledger={"entry": None})
UNPROVEN = released("draw", Unproven(reason="no proof"), None)
OVERLAP = put("guarantee", certified=False, overlap="together they spend epsilon 2")
BOUGHT = released("release bounds")
TEXT = with_schema(form="text", columns=(Column(name="note", kind="text"),))
SCORE = {"metric": "accuracy", "value": 0.9, "low": 0.8, "high": 0.95, "epsilon": 0.2, "rows": 100.0}
SCORED, BUILT_IN = put("", score=SCORE), put("data", origin="built-in", name="adult")
CONSIDERED = put(
    "",
    considered=[
        {"learner": "linear", "rule": "table", "taken": True, "reason": "as agreed"},
        {"learner": "boosted", "rule": "large table", "taken": False, "reason": "too few rows"},
        {"learner": "mean", "rule": "", "taken": None, "reason": "compared"},
    ],
)
SELECTED = put("data", selected={"epsilon": 0.5, "delta": 1e-5})
CHARGED = put("data", ledger={"charges": 2, "epsilon": 0.75, "delta": 1e-5})
SEARCHED = both(put("", search={"point": {}}), released("search with rs"))


@dataclass(frozen=True)
class Said:
    """A sentence, a card that says it, and cards that do not."""

    words: str
    where: Change
    nowhere: tuple[Change, ...]
    audit: AuditRecord | None = None
    other_audit: AuditRecord | None = field(default=None)


PAGE = [
    Said("The learner linear was trained on 32,561 rows under differential privacy.", same, (UNCERTIFIED, SEEDED)),
    Said("Its guarantee is not certified.", UNCERTIFIED, (same,)),
    Said("trained on rows of people.csv (32,561 rows)", put("", data={"name": "people.csv"}), (same,)),
    Said(
        "trained on rows of a.csv (at most 32,561 rows, the first 2 of each person)",
        both(put("", data={"name": "a.csv"}), with_schema(unit="person", cap=2)),
        (put("", data={"name": "a.csv"}),),
    ),
    Said("(32,561 rows, some of them held out for the score)", both(put("", data={"name": "a.csv"}), SCORED), (same,)),
    Said("protection strong certified yes", same, (UNCERTIFIED, SEEDED, weak)),
    Said("protection moderate", put("guarantee", epsilon=3.0), (same, weak)),
    Said("protection weak", weak, (same,)),
    Said("protection not certified certified no", SEEDED, (same,)),
    Said("is right at most 55.1% of the time; a random guess is right 50%.", same, (weak,)),
    Said("does not exclude that an attacker who must guess whether a given row", weak, (same,)),
    Said("This bound is not certified.", UNCERTIFIED, (same,)),
    Said("</p> <p>Add or remove one row: the probability of every result P becomes at most 2.72", same, (SEEDED,)),
    Said("Apart from the warning above, this means: add or remove one row", SEEDED, (same,)),
    Said("seeded, not for release", SEEDED, (same,)),
    Said("not certified: no proof", UNPROVEN, (same,)),
    Said("The schema was drafted from the rows.", DRAFTED, (same,)),
    Said("other releases of the same rows are not in the ledger, or not certified", OVERLAP, (same,)),
    Said("The guarantee is for this release alone: together they spend epsilon 2.", OVERLAP, (same,)),
    Said(f"not private: {CHOSEN_WITHOUT_NOISE}", STANDARD, (same,)),
    Said("not private as claimed: an audit refutes the claim", same, (same,), REFUTED, AUDIT),
    Said("The owner has made no statement.", same, (put("", description={"owner": "Town"}),)),
    Said("No score is shown", same, (SCORED,)),
    Said("It may be released.", SCORED, (same, both(SCORED, SEEDED))),
    Said("One release accounts for the whole cost", single, (same,)),
    Said("composition is sub-additive", same, (single,)),
    Said("selected by an earlier run, with epsilon 0.5 at delta 1e-5. This is not part", SELECTED, (same,)),
    Said("had no charge before, so it does not count that selection.", SELECTED, (same, both(SELECTED, CHARGED))),
    Said("ledger had 2 charges; all of them together have epsilon 0.75 at delta 1e-5.", CHARGED, (same, SELECTED)),
    Said("Each epsilon in the table uses the whole delta", put("guarantee", epsilon=1.2), (same,)),
    Said("There is no finite epsilon to show.", put("guarantee", epsilon=None), (same,)),
    Said("nothing</td><td>no row was used", put("", events=[]), (same,)),
    Said("The following bounds hold for every attack", same, (UNCERTIFIED, SEEDED)),
    Said("are not certified. Apart from the warning above they hold", UNCERTIFIED, (same,)),
    Said("Real attacks stay below it.", same, (SEEDED, UNPROVEN)),
    Said("The true rate of every attack stays below it; the rates of the audit are estimates", same, (same,), AUDIT),
    Said("may exceed the largest rate by chance", same, (same,), AUDIT),
    Said("which is more exact than one pair", same, (UNPROVEN,)),
    Said("epsilon and delta alone, because the trade-off function", UNPROVEN, (same,)),
    Said("This page shows no audit of the model.", same, (same,), None, AUDIT),
    Said("does not prove the claim", same, (same,), AUDIT, REFUTED),
    Said("The claim is refuted", same, (same,), REFUTED, AUDIT),
    Said("The unit of privacy is one row. A person", same, (with_schema(unit="label"), with_schema(unit="person"))),
    Said("Only labels are protected.", with_schema(unit="label"), (same,)),
    Said("Further rows, if there were any, were left out.", with_schema(unit="person", cap=2), (same,)),
    Said("The ledger of the data set has the total of all releases", same, (NO_LEDGER,)),
    Said("Numbers outside the ranges in the table of columns on this page are clipped", same, (TEXT,)),
    Said("The model knows only the categories that the table of columns on this page counts.", same, (TEXT,)),
    Said("Texts are embedded by a network", put("", features=[{"name": "sentences"}]), (same,)),
    Said("Images are embedded by a network", put("", features=[{"name": "extractor"}]), (same,)),
    Said("without further features", put("", features=[]), (same,)),
    Said("linear table taken as agreed", CONSIDERED, (same,)),
    Said("boosted large table not taken too few rows", CONSIDERED, (same,)),
    Said("mean not known compared", CONSIDERED, (same,)),
    Said("No plan was recorded.", put("", plan=[]), (same,)),
    Said("schema declared by the owner, or part of a built-in data set", same, (BOUGHT, DRAFTED)),
    Said("schema declared by the owner columns", put("data", origin="declared"), (same, BOUGHT, DRAFTED)),
    Said("estimated with part of the budget", both(put("data", origin="declared"), BOUGHT), (same,)),
    Said(
        "schema estimated from the rows with noise, as part of the budget, so it needs no review",
        BOUGHT,
        (same, DRAFTED),
    ),
    Said("schema part of the built-in data set", put("data", origin="built-in"), (same, DRAFTED)),
    Said("schema without ranges or categories", put("data", origin="given"), (same,)),
    Said("schema read from the rows without noise; nobody has reviewed it", DRAFTED, (same, BOUGHT)),
    Said("columns used 2 not used patient_id, weight", put("data", unused=["patient_id"]), (same,)),
    Said("weight, clinic (it identifies the persons)", put("schema", unit="clinic", cap=2), (same,)),
    Said("recompute every epsilon on this page", same, (UNPROVEN, put("guarantee", epsilon=None))),
    Said("No epsilon can be recomputed", UNPROVEN, (same,)),
    Said(f"The ledger entry of this model is {ENTRY}", same, (NO_LEDGER,)),
    Said("This model names no ledger entry.", NO_LEDGER, (same,)),
    Said("Every number on it that depends on the rows comes from the releases", same, (STANDARD,)),
]

CARDS: dict[str, tuple[Callable[[ModelCard], str], list[Said]]] = {
    "tuning": (
        paid_choices,
        [
            Said("were searched under differential privacy", SEARCHED, (same,)),
            Said("were searched on public rows", put("", search={"workflow": "aware", "point": {}}), (same, STANDARD)),
            Said("chosen on the same rows without noise", STANDARD, (same,)),
            Said("did not tune hyper-parameters on the rows", same, (STANDARD, put("", search={"workflow": "aware"}))),
            Said("The policy chose them from public facts", put("settings", policy="default 1"), (same,)),
            Said("Ranges and categories were declared", same, (BOUGHT, DRAFTED, TEXT)),
            Said("released under differential privacy. Their cost is part of epsilon", BOUGHT, (same, DRAFTED)),
            Said("Their cost is not part of epsilon", DRAFTED, (same, BOUGHT)),
            Said("needs no ranges or categories", TEXT, (same,)),
            Said("selected by an earlier run, with epsilon 0.5 at delta 1e-5", SELECTED, (same,)),
        ],
    ),
    "composition": (
        composition,
        [
            Said("pld and cf are independent implementations and agree", same, (
                put("guarantee", accountants={"pld": 1.0}), put("guarantee", accountants={"pld": 1.0, "cf": 1.2}))),
            Said("Accountants: ", same, (put("guarantee", accountants={}),)),
        ],
    ),
    "registry": (
        registry_yaml,
        [
            Said("Sums over rows have no rounding error.", same, (put("", learner="dpsgd"), put("", learner="own"))),
            Said("A bound on the rounding error is part of the sensitivity", put("", learner="dpsgd"), (same,)),
            Said("Noise is keyed by the operating system", same, (SEEDED,)),
            Said("Noise is keyed by a recorded seed", SEEDED, (same,)),
            Said("This guarantee is not certified.", UNCERTIFIED, (same,)),
            Said("trained on rows of people.csv (", put("", data={"name": "people.csv"}), (same,)),
            Said(f"This release is entry {ENTRY}", same, (NO_LEDGER,)),
            Said("Pure DP", put("guarantee", delta=0.0), (same,)),
            Said("released with noise", SCORED, (same,)),
        ],
    ),
    "nist": (
        nist_markdown,
        [
            Said("Sums over rows have no rounding error", same, (put("", learner="dpsgd"),)),
            Said("is a weak guarantee", weak, (same,)),
            Said("such a delta allows publishing a row", put("guarantee", delta=1e-3), (same,)),
            Said("is each row a different person", same, (with_schema(unit="person"),)),
            Said("only labels are protected", with_schema(unit="label"), (same,)),
            Said("the guarantee is not certified", UNCERTIFIED, (same,)),
            Said("the noise was seeded", SEEDED, (same,)),
            Said("settings were chosen without noise", STANDARD, (same,)),
            Said("No score was bought", same, (SCORED,)),
        ],
    ),
    "huggingface": (
        huggingface_markdown,
        [
            Said("rows that are not named", same, (put("", data={"name": "people.csv"}),)),
            Said("private rows, not published", SCORED, (both(SCORED, BUILT_IN),)),
            Said("No score was released", same, (SCORED,)),
        ],
    ),
    "cyclonedx": (
        cyclonedx_json,
        [
            Said('"classification": "private"', same, (BUILT_IN,)),
            Said('"name": "adult"', BUILT_IN, (same,)),
            Said("This bound is not certified", UNCERTIFIED, (same,)),
        ],
    ),
}  # fmt: skip


def changed(change: Change) -> ModelCard:
    entries = card_entries()
    change(entries)
    return ModelCard.from_json(entries)


@cache
def page_of(change: Change, audit: AuditRecord | None) -> str:
    """The page as text on one line, without the styles and the tags of its tables; tags of paragraphs stay."""
    html = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", report.page(changed(change), audit), flags=re.DOTALL)
    text = re.sub(r"<(?!/?p>|/?td>)[^>]*>", " ", html).replace("&#34;", '"')
    return " ".join(text.split())


@pytest.mark.parametrize("said", PAGE, ids=lambda said: said.words[:50])
def test_p58_page_says_each_sentence_only_where_it_is_true(said: Said) -> None:
    words = said.words if "<" in said.words else None
    pages = [page_of(said.where, said.audit), *(page_of(each, said.other_audit) for each in said.nowhere)]
    shown = [page if words else " ".join(re.sub(r"</?(?:p|td)>", " ", page).split()) for page in pages]
    assert [said.words in page for page in shown] == [True, *[False] * len(said.nowhere)]


@pytest.mark.parametrize(
    ("render", "said"),
    [(render, each) for render, listed in CARDS.values() for each in listed],
    ids=[f"{name}: {each.words[:50]}" for name, (_, listed) in CARDS.items() for each in listed],
)
def test_cards_say_each_sentence_only_where_it_is_true(render: Callable[[ModelCard], str], said: Said) -> None:
    texts = [" ".join(render(changed(each)).split()) for each in (said.where, *said.nowhere)]
    assert [said.words in text for text in texts] == [True, *[False] * len(said.nowhere)]


def test_colour_is_green_only_for_a_strong_certified_guarantee() -> None:
    assert protection_class(changed(same), True) == ("strong", "yes")
    assert protection_class(changed(put("guarantee", epsilon=5.0)), True) == ("moderate", "fair")
    assert protection_class(changed(weak), True) == ("weak", "no")
    assert protection_class(changed(same), False) == ("not certified", "no")
    assert '<dd class="yes">yes</dd>' not in report.page(changed(weak))


def test_old_cards_are_shown_in_words_that_follow_their_epsilon() -> None:
    """An earlier version stored "learns little" for any epsilon."""
    card = changed(weak)
    for sentence in earlier_sentences_of(card.schema, 100.0, 1e-5):
        shown = guarantee_words(changed(both(weak, put("guarantee", sentence=sentence))))
        assert "learns little" not in shown
        assert shown.endswith("This is a weak guarantee, because epsilon is above 10.")
