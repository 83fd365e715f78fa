"""The page says every public fact, nothing else, and is inert whatever model.json holds."""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privaware import report
from privaware.card import ModelCard
from privaware.errors import WrongInput
from privaware.events import (
    NOTHING,
    ZCDP,
    Approximate,
    Disjoint,
    Event,
    Gaussian,
    Group,
    Laplace,
    Pure,
    RandomisedResponse,
    Selected,
    Unproven,
    to_json,
)
from privaware.report import _words
from privaware.schema import Column, Schema

ENTRY = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}${7*7}]]>--><svg/onload=a>"


def sample() -> dict[str, Any]:
    schema = Schema(
        columns=(
            Column(name="age", low=17, high=90, bins=(30, 45)),
            Column(name="work", kind="category", categories=("a", "b", "c"), unseen="other"),
            Column(name="weight", kind="ignore"),
        ),
        target="income",
        classes=("low", "high"),
        rows=32561,
        assumed=("the bounds of age were confirmed",),
    )
    return {
        "format": 1,
        "version": "0.1.7",
        "created": "2026-02-03T10:11:12Z",
        "learner": "linear",
        "settings": {"steps": 117, "lr": 0.625},
        "schema": schema.json(),
        "features": [{"name": "onehot", "width": 31}],
        "architecture": {"name": "softmax", "inputs": 37},
        "plan": ["Encode by public bins.", "Train in noisy steps."],
        "guarantee": {
            "epsilon": 1.0,
            "delta": 1e-5,
            "unit": "row",
            "relation": "add_remove",
            "sampler": "every row in every step",
            "method": "pld",
            "accountants": {"pld": 0.99998, "cf": 0.9975, "rdp": 1.0963},
            "certified": True,
            "seed": None,
            "sentence": "Anyone learns almost the same with you or without you.",
            "assumptions": ["The number of rows was declared."],
        },
        "events": [
            {"what": "count", "event": to_json(Laplace(noise=20.0)), "epsilon": 0.05},
            {"what": "train", "event": to_json(117 * Gaussian(noise=43.7)), "epsilon": 0.9712},
        ],
        "ledger": {"entry": ENTRY, "run": "k"},
    }


def page(entries: dict[str, Any]) -> str:
    """The page of a `model.json` with these entries."""
    return report.page(ModelCard.from_json(entries))


class Reader(HTMLParser):
    """What a browser would make of the page: its tags, attributes and visible words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.feed(page)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def plain() -> str:
    return page(sample())


@pytest.mark.parametrize(
    "fact",
    [
        "linear for income",
        "Anyone learns almost the same with you or without you.",
        "epsilon 1",
        "1e-5",
        "row: one row",
        "add_remove: add or remove one",
        "every row in every step",
        "0.99998 reported",
        "0.9975 check",
        "1.0963 check",
        "certified yes",
        "The number of rows was declared.",
        "the bounds of age were confirmed",
        "Encode by public bins.",
        "Train in noisy steps.",
        "count Laplace noise 20, every row 0.05",
        "train 117 x Gaussian, noise 43.7, every row 0.9712",
        "The parts add up to 1.022, but together they cost 1: parts do not add up",
        "sub-additive",
        "at a false alarm rate of 1% no attacker finds more than 2.72% of the members",
        "age number 17 to 90, 3 public bins",
        "work category 3 categories: a, b, c refuse other",
        "weight ignore not used",
        "income: 2 classes: low, high",
        "32,561",
        "inputs 37",
        "name onehot width 31",
        "steps 117 lr 0.625",
        "privaware verify FOLDER",
        ENTRY,
        "privaware 0.1.7",
        "2026-02-03T10:11:12Z",
    ],
)
def test_the_page_says_every_fact(plain: str, fact: str) -> None:
    assert fact in Reader(plain).text


def fetches(page: str) -> list[str]:
    return re.findall(r"""(?i)\b(?:src|href|srcset|action|data)\s*=|url\(|@import|https?:|//\w""", page)


def test_the_page_fetches_nothing_and_runs_nothing(plain: str) -> None:
    assert fetches(plain) == []
    assert not Reader(plain).tags & {"script", "link", "iframe", "object", "embed", "img", "image"}
    assert "default-src 'none'" in plain


def test_both_plots_are_drawn_and_have_words_beside_them(plain: str) -> None:
    assert plain.count("<svg") == 2
    labels = re.findall(r'role="img" aria-label="([^"]*)"', plain)
    assert "count: 0.05; train: 0.9712; together: 1" in labels[0]
    assert "2.72% at 1% false alarms" in labels[1]


def poisoned(value: Any, text: str) -> Any:
    """Every text that a stranger may choose, replaced by `text`."""
    facts: dict[str, Any] = copy.deepcopy(value)
    for name in ("version", "created", "learner"):
        facts[name] = text
    for column in facts["schema"]["columns"]:
        column["name"] += text
    facts["schema"].update(target=text, classes=["a" + text, "b" + text], assumed=[text])
    facts["schema"]["columns"][1]["categories"] = [text]
    facts.update(settings={text: text}, features=[{text: [text]}], architecture={text: text})
    facts.update(plan=[text], ledger={"entry": text, "run": text})
    for name in ("unit", "relation", "sampler", "method", "sentence"):
        facts["guarantee"][name] = text
    facts["guarantee"].update(assumptions=[text], accountants={text: 1.0}, seed=text)
    facts["events"][0]["what"] = text
    facts["events"].append({"what": text, "event": to_json(Unproven(reason=text)), "epsilon": 0.5})
    return facts


@pytest.fixture(scope="module")
def harmless() -> Reader:
    return Reader(page(poisoned(sample(), "x")))


def test_hostile_names_are_inert(harmless: Reader) -> None:
    bad = Reader(page(poisoned(sample(), HOSTILE)))
    assert bad.tags == harmless.tags
    assert bad.attributes == harmless.attributes
    assert not any(name.startswith("on") for name in bad.attributes)
    assert "49" not in re.findall(r"\d+", bad.text.replace("7*7", ""))
    assert "{{ 7*7 }}" in bad.text  # shown as text, not worked out


@given(st.text(min_size=1, max_size=20))
@example("\x00\u202e")
@example("'/**/--></style><b>")
@settings(max_examples=15, deadline=None)
def test_any_text_at_all_makes_a_page_of_the_same_shape(harmless: Reader, text: str) -> None:
    html = page(poisoned(sample(), text))
    html.encode("utf-8")
    assert Reader(html).tags == harmless.tags


def test_lone_surrogates_are_replaced_on_the_page_and_refused_in_the_schema() -> None:
    text = "\ud800\x00\u202e"
    entries = poisoned(sample(), text) | {"schema": sample()["schema"]}
    html = page(entries)
    html.encode("utf-8")
    assert "\N{REPLACEMENT CHARACTER}" in html
    with pytest.raises(WrongInput, match=r"model\.json: column .* expected a non-empty name"):
        page(poisoned(sample(), text))


def test_p32_scores_and_private_fields_never_reach_the_page() -> None:
    facts = sample()
    facts["internal"] = {"test_score": 0.8642}
    facts["seconds"] = 0.8642
    facts["settings"]["internal"] = 0.8642
    facts["settings"]["nested"] = {"test_score": 0.8642, "depth": 2}
    facts["architecture"]["accuracy"] = 0.8642
    facts["features"][0]["Scores"] = [0.8642]
    facts["guarantee"]["internal"] = 0.8642
    facts["events"][0]["batch"] = 0.8642
    html = page(facts)
    assert "8642" not in html
    assert not re.search("internal|test_score|accuracy|scores", html.lower())


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_the_risk_curve_is_the_bound_computed_directly(epsilon: float, delta: float) -> None:
    for step in range(1001):
        fpr = step / 1000
        one = math.exp(epsilon) * fpr + delta
        other = 1 - math.exp(-epsilon) * (1 - delta - fpr)
        assert report.power(epsilon, delta, fpr) == pytest.approx(min(one, other, 1), abs=1e-12)


def test_no_epsilon_is_guessing_and_an_endless_one_hides_nothing() -> None:
    assert report.power(0.0, 0.0, 0.3) == pytest.approx(0.3)
    assert report.power(math.inf, 0.0, 0.0) == 1.0
    assert report.power(1e6, 1e-5, 0.0) == 1e-5  # still never certain without a false alarm


@given(st.floats(0, 20), st.floats(0, 0.5), st.floats(0, 1))
def test_the_bound_is_attained_by_randomised_response(eps: float, delta: float, fpr: float) -> None:
    # The extreme (epsilon, delta) mechanism: its exact Neyman-Pearson curve by linear interpolation.
    lie = (1 - delta) / (1 + math.exp(eps))
    corners = [(0.0, delta), (lie, 1 - lie), (1 - delta, 1.0), (1.0, 1.0)]
    for (x0, y0), (x1, y1) in itertools.pairwise(corners):
        if x0 <= fpr <= x1 and x1 > x0:
            exact = y0 + (y1 - y0) * (fpr - x0) / (x1 - x0)
            assert report.power(eps, delta, fpr) == pytest.approx(exact, rel=1e-9, abs=1e-12)
            break


def drawn_corners(page: str) -> list[tuple[float, float]]:
    """The points of the attacker's line, read back from the drawing (420 by 300 units)."""
    path = re.search(r'aria-label="[^"]*best possible attacker[^"]*"[^>]*\bd="M([^"]*)"', page)
    path = path or re.search(r'\bd="M([^"]*)"[^>]*stroke="#d07a2d"', page)
    assert path
    points = [tuple(map(float, point.split(","))) for point in path[1].split("L")]
    return [(x / 420, 1 - y / 300) for x, y in points]


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 20.0])
def test_the_drawn_curve_is_the_bound(epsilon: float) -> None:
    facts = sample()
    facts["guarantee"]["epsilon"] = epsilon
    points = drawn_corners(page(facts).rpartition("<svg")[2])
    across, up = zip(*points)
    for alarm in np.linspace(0.01, 0.99, 99):
        drawn = np.interp(alarm, across, up)
        assert drawn == pytest.approx(report.power(epsilon, 1e-5, alarm), abs=0.003)


def test_a_large_epsilon_is_not_made_to_sound_safe() -> None:
    facts = sample()
    facts["guarantee"]["epsilon"] = 20.0
    text = Reader(page(facts)).text
    assert "finding nearly all members is not ruled out" in text
    assert "no attacker finds more than" not in text


def test_seeded_runs_carry_the_band_whatever_else_is_claimed(plain: str) -> None:
    assert "not for release" not in plain
    facts = sample()
    facts["guarantee"]["seed"] = 0  # certified is still claimed
    text = Reader(page(facts)).text
    assert "seeded, not for release" in text
    assert "certified no" in text


@pytest.mark.parametrize(
    ("change", "band"),
    [
        ({"certified": False}, "not certified: the run did not earn it"),
        ({"certified": False, "accountants": {"pld": 1.0, "cf": 1.1}}, "not certified: the accountants disagree"),
        ({"epsilon": None}, "not certified: no finite epsilon is proven"),
        ({"epsilon": math.inf}, "not certified: no finite epsilon is proven"),
    ],
)
def test_whatever_is_not_certified_says_so_and_why(change: dict[str, Any], band: str) -> None:
    facts = sample()
    facts["guarantee"].update(change)
    text = Reader(page(facts)).text
    assert band in text
    assert "certified no" in text


def test_an_unproven_part_is_named_in_the_band() -> None:
    facts = sample()
    event = 3 * (Pure(epsilon=0.1) + Unproven(reason="images enter the loss"))
    facts["events"].append({"what": "draw", "event": to_json(event), "epsilon": None})
    assert "not certified: images enter the loss" in Reader(page(facts)).text


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (100 * Gaussian(noise=12.3), "100 x Gaussian, noise 12.3, every row"),
        (
            400 * Gaussian(noise=1.1).sampled(rate=0.02),
            "400 steps of Gaussian noise 1.1 on Poisson samples at rate 0.02",
        ),
        (
            Selected(event=Pure(epsilon=0.1), law="logarithmic", mean=10.0),
            "the best of a secret random number of runs (logarithmic law, 10 expected), each "
            "a release known to cost epsilon 0.1",
        ),
        (Group(event=Laplace(noise=2.0), size=5), "Laplace noise 2, every row, priced for a unit of up to 5 rows"),
        (
            Disjoint(events=(ZCDP(rho=0.5), Approximate(epsilon=1.0, delta=1e-6))),
            "on disjoint parts of the rows, of which the dearest counts: a release known to cost "
            "rho 0.5 (zero-concentrated); a release known to cost epsilon 1, delta 1e-6",
        ),
        (2 * RandomisedResponse(epsilon=1.0, classes=10), "2 x (randomised response among 10 values, epsilon 1)"),
        (NOTHING, "nothing that touches a row"),
    ],
)
def test_every_kind_of_event_has_words(event: Event, words: str) -> None:
    assert _words.formula(event) == words


@given(st.floats(1e-12, 1e12))
def test_what_is_read_is_never_less_than_what_is_meant(x: float) -> None:
    shown = float(_words.rounded_up(x).replace(",", ""))
    assert x * (1 - 1e-11) <= shown <= x * 1.001 * (1 + 1e-9)


def keys(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where each entry that the format promises stands; free-form ones need not be there."""
    inner = {"guarantee", "ledger"}
    found = []
    for name, item in value.items():
        if (*path, name) not in {("ledger", "run"), ("guarantee", "accountants", name)}:
            found.append((*path, name))
        if name in inner:
            found += keys(item, (*path, name))
    return found


@pytest.mark.parametrize("where", keys(sample()), ids=lambda path: ".".join(path))
def test_a_missing_entry_is_one_sentence_that_names_it(where: tuple[str, ...]) -> None:
    facts = sample()
    inner = facts
    for name in where[:-1]:
        inner = inner[name]
    del inner[where[-1]]
    with pytest.raises(WrongInput, match=where[-1]) as caught:
        page(facts)
    assert "\n" not in str(caught.value)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
PLACES = [
    *((*path,) for path in keys(sample())),
    ("guarantee", "accountants", "pld"),
    ("events", 0, "event"),
    ("events", 0, "event", "kind"),
    ("events", 0, "event", "noise"),
    ("events", 1, "event", "count"),
    ("events", 1, "event", "event"),
    ("events", 0, "epsilon"),
    ("schema", "columns"),
    ("schema", "columns", 0, "low"),
    ("schema", "columns", 0, "bins"),
    ("schema", "columns", 1, "categories"),
    ("schema", "shape"),
    ("schema", "rows"),
    ("schema", "low"),
]


@given(st.sampled_from(PLACES), JUNK)
@example(("events", 0, "event", "noise"), 10**400)
@example(("guarantee", "epsilon"), 10**400)
@example(("guarantee", "epsilon"), float("nan"))
@settings(max_examples=150, deadline=None)
def test_junk_anywhere_is_a_page_or_one_sentence(where: tuple[Any, ...], junk: Any) -> None:
    facts = sample()
    inner: Any = facts
    for name in where[:-1]:
        inner = inner[name]
    inner[where[-1]] = junk
    try:
        answer = page(facts)[-8:].strip()
    except WrongInput as problem:
        answer = str(problem)
    assert answer == "</html>" or len(answer.splitlines()) == 1


def test_endless_nesting_is_one_sentence(tmp_path: Path) -> None:
    facts = sample()
    for _ in range(500):
        facts["settings"] = {"deeper": facts["settings"]}
    with pytest.raises(WrongInput, match="nested"):
        page(facts)
    (tmp_path / "model.json").write_text("[" * 100_000)
    with pytest.raises(WrongInput, match="damaged"):
        report.write(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / "model.json").write_text(json.dumps(sample()))
    return made


def test_write_renews_the_folders_own_report(folder: Path) -> None:
    (folder / "report.html").write_text("old")
    assert report.write(folder) == folder / "report.html"
    assert (folder / "report.html").read_text(encoding="utf-8") == page(sample())
    assert sorted(p.name for p in folder.iterdir()) == ["model.json", "report.html"]


def test_write_overwrites_no_other_file_unless_asked(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "report.html"
    other.write_text("mine")
    with pytest.raises(WrongInput, match="exists already"):
        report.write(folder, other)
    assert other.read_text() == "mine"
    assert report.write(folder, other, overwrite=True) == other
    assert "</html>" in other.read_text(encoding="utf-8")


def test_write_does_not_follow_a_link_out_of_the_folder(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim.html"
    victim.write_text("mine")
    (folder / "report.html").symlink_to(victim)
    with pytest.raises(WrongInput, match="exists already"):
        report.write(folder, victim)
    report.write(folder)
    assert victim.read_text() == "mine"


def test_write_never_replaces_the_model(folder: Path) -> None:
    before = (folder / "model.json").read_bytes()
    with pytest.raises(WrongInput, match=r"ending in \.html"):
        report.write(folder, folder / "model.json", overwrite=True)
    assert (folder / "model.json").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"null", b'{"format": 2}', b"9" * 5000])
def test_a_damaged_file_is_one_sentence_and_writes_nothing(folder: Path, content: bytes) -> None:
    (folder / "model.json").write_bytes(content)
    with pytest.raises(WrongInput) as caught:
        report.write(folder)
    assert len(str(caught.value).splitlines()) == 1
    assert not (folder / "report.html").exists()


def test_a_folder_that_is_no_model_or_a_place_that_is_not_there_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match=r"model\.json"):
        report.write(tmp_path)
    with pytest.raises(WrongInput, match="cannot write the report"):
        report.write(folder, tmp_path / "nowhere" / "report.html")


def test_long_schemas_and_many_events_still_make_a_page() -> None:
    facts = sample()
    many = tuple(Column(name=f"bit {i}", low=0, high=1) for i in range(600))
    facts["schema"] = Schema(columns=many, target="shop", low=0.0, high=5.0, rows=10).json()
    facts["events"] = facts["events"] * 50
    html = page(facts)
    assert "bit 599" in html
    assert "The 76 parts not drawn are in the table above." in Reader(html).text
    assert "a number, 0 to 5" in html


@pytest.mark.parametrize(("suffix", "magic"), [("png", b"\x89PNG"), ("svg", b"<svg"), ("pdf", b"%PDF")])
def test_plot_saves_by_suffix(tmp_path: Path, suffix: str, magic: bytes) -> None:
    import altair as alt

    chart = alt.Chart(alt.InlineData(values=[{"a": 1, "b": 2}])).mark_point().encode(x="a:Q", y="b:Q")
    path = report.plot(chart, tmp_path / f"plot.{suffix}")
    assert path.read_bytes().startswith(magic)


def test_plot_refuses_other_suffixes_and_places(tmp_path: Path) -> None:
    import altair as alt

    chart = alt.Chart(alt.InlineData(values=[{"a": 1}])).mark_point().encode(x="a:Q")
    with pytest.raises(WrongInput, match=r"\.png, \.svg or \.pdf"):
        report.plot(chart, tmp_path / "plot.gif")
    with pytest.raises(WrongInput, match="cannot write the plot"):
        report.plot(chart, tmp_path / "nowhere" / "plot.svg")
