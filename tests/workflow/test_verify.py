"""`verify` recomputes the guarantee, and answers a damaged folder with one sentence or a list of problems."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from privaware import Ledger, Schema, fit, report, select, verify
from privaware.errors import WrongInput
from privaware.schema import Column

FORMAT_1 = Path(__file__).parent / "format_1"
UNBOUND = Path(__file__).parent / "unbound"
"""A model and its ledger of a version that closed runs without the hashes of their files."""
REMOVED = object()
"""Stands for an entry that is removed instead of replaced."""
ODD: tuple[Any, ...] = (None, 10**400, float("nan"), "\ud800", [{}], {"kind": []}, -1.5)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("privaware.report._charts.render", lambda chart: "")  # slow, and tested elsewhere
    return Path(shutil.copytree(FORMAT_1, tmp_path / "m"))


def rewrite(folder: Path, entries: Any) -> None:
    (folder / "model.json").write_text(json.dumps(entries))


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every entry of a JSON value stands; of a list, the first."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for name, item in items:
        yield (*path, name)
        yield from paths(item, (*path, name))


def parent(value: Any, path: tuple[Any, ...]) -> Any:
    for name in path[:-1]:
        value = value[name]
    return value


def test_model_of_an_earlier_version_is_valid() -> None:
    verdict = verify(FORMAT_1)
    assert verdict.valid
    assert verdict.certified
    assert not verdict.bound
    assert verdict.problems == []
    assert verdict.epsilon["pld"] == pytest.approx(verdict.epsilon["cf"], rel=1e-6)


@pytest.mark.parametrize("name", ["unit", "cap", "relation"])
def test_guarantee_for_another_unit_than_the_schema_is_not_valid(folder: Path, name: str) -> None:
    entries = json.loads((folder / "model.json").read_text())
    entries["guarantee"][name] = {"unit": "row", "cap": 4, "relation": "replace_one"}[name]
    rewrite(folder, entries)
    verdict = verify(folder)
    assert not verdict.valid
    assert not verdict.certified
    assert verdict.problems[0].startswith(f"the guarantee is for {name} ")


def test_seeded_model_that_is_called_certified_is_not_valid(folder: Path) -> None:
    entries = json.loads((folder / "model.json").read_text())
    entries["guarantee"]["seed"] = 3
    rewrite(folder, entries)
    assert verify(folder).problems == ["the model is called certified although its run was seeded"]


@pytest.mark.parametrize("change", [{"epsilon": None}, {"epsilon": float("inf")}, {"delta": 0}, {"delta": 1}])
def test_guarantee_without_finite_epsilon_or_delta_is_refused(folder: Path, change: dict[str, Any]) -> None:
    entries = json.loads((folder / "model.json").read_text())
    entries["guarantee"].update(change)
    rewrite(folder, entries)
    with pytest.raises(WrongInput, match=r"epsilon|delta"):
        verify(folder)


@pytest.mark.parametrize(
    ("odd", "least"), [(REMOVED, 50), *((odd, 60) for odd in ODD)], ids=["removed", *(f"{odd!a:.12}" for odd in ODD)]
)
def test_every_odd_entry_is_answered_in_one_sentence(folder: Path, odd: Any, least: int) -> None:
    """`verify` may also find the folder valid, where what was removed is not part of the guarantee."""
    entries = json.loads((folder / "model.json").read_text())
    refused = []
    for path in paths(entries):
        damaged = copy.deepcopy(entries)
        if odd is REMOVED:
            del parent(damaged, path)[path[-1]]
        else:
            parent(damaged, path)[path[-1]] = odd
        rewrite(folder, damaged)
        refused += answers(folder, path)
    assert len(refused) > least


def answers(folder: Path, path: tuple[Any, ...]) -> list[str]:
    """The refusals of `verify` and `report`; anything but an answer in one line fails."""
    refused = []
    for verb in (verify, report.write):
        try:
            verdict = verb(folder)
        except WrongInput as problem:
            refused.append(str(problem))
        else:
            refused += getattr(verdict, "problems", [])
    assert all(len(words.splitlines()) == 1 and len(words) < 600 for words in refused), path
    return refused


# Bound to the ledger

LEDGER = "people.ledger"


@pytest.fixture(scope="module")
def bound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models of the same rows, `one` and `two`, under one ledger."""
    place = tmp_path_factory.mktemp("bound")
    frame = pd.DataFrame({"a": np.linspace(0, 1, 200), "y": ["no", "yes"] * 100})
    schema = Schema(columns=(Column(name="a", low=0.0, high=1.0),), target="y", classes=("no", "yes"), rows=200)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privaware.report._charts.render", lambda chart: "")
        for name in ("one", "two"):
            settings: dict[str, Any] = {"learner": "linear", "settings": {"steps": 2}, "limit": 4.0}
            fit(frame, schema=schema, epsilon=1.0, ledger=place / LEDGER, out=place / name, **settings)
    return place


@pytest.fixture
def place(bound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bound, tmp_path / "bound"))


def edit_card(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    entries = json.loads((folder / "model.json").read_text())
    change(entries)
    (folder / "model.json").write_text(json.dumps(entries, indent=1))


def other_weights(place: Path) -> None:
    path = place / "one" / "model.safetensors"
    content = save_tensors(
        {name: np.full_like(value, 123.5) for name, value in load_tensors(path.read_bytes()).items()}
    )
    path.write_bytes(content)
    edit_card(place / "one", lambda entries: entries.update(tensors=hashlib.sha256(content).hexdigest()))


def other_settings(place: Path) -> None:
    edit_card(place / "one", lambda entries: entries["settings"].update(lr=3.0))


def other_spelling(place: Path) -> None:
    edit_card(place / "one", lambda entries: None)
    path = place / "one" / "model.json"
    path.write_bytes(path.read_bytes() + b"\n")


def other_report(place: Path) -> None:
    path = place / "one" / "report.html"
    path.write_text(path.read_text().replace("</main>", "<p>Nothing can be learnt from this model.</p></main>"))


def report_of_another(place: Path) -> None:
    shutil.copy(place / "two" / "report.html", place / "one" / "report.html")


def no_report(place: Path) -> None:
    (place / "one" / "report.html").unlink()


def folder_of_another(place: Path) -> None:
    """The second model under the entry of the first."""
    entry = json.loads((place / "one" / "model.json").read_text())["ledger"]
    shutil.rmtree(place / "one")
    shutil.copytree(place / "two", place / "one")
    edit_card(place / "one", lambda entries: entries.update(ledger=entry))
    (place / "one" / "report.html").unlink()
    report.write(place / "one")


FORGERIES = [
    other_weights,
    other_settings,
    other_spelling,
    other_report,
    report_of_another,
    no_report,
    folder_of_another,
]


@pytest.mark.parametrize("forge", FORGERIES)
def test_p44_forged_folder_is_not_valid_against_its_ledger(
    place: Path, monkeypatch: pytest.MonkeyPatch, forge: Callable[[Path], None]
) -> None:
    monkeypatch.setattr("privaware.report._charts.render", lambda chart: "")
    forge(place)
    verdict = verify(place / "one", ledger=place / LEDGER)
    assert not verdict.valid
    assert not verdict.certified
    assert not verdict.bound
    assert any("was released" in problem for problem in verdict.problems)


def test_p44_folder_and_its_copies_are_bound(place: Path) -> None:
    shutil.copytree(place / "one", place / "copy", copy_function=shutil.copyfile)
    for name in ("one", "two", "copy"):
        verdict = verify(place / name, ledger=place / LEDGER)
        assert verdict.valid, verdict.problems
        assert verdict.certified
        assert verdict.bound
        assert verdict.unchecked == []


def test_p44_verify_alone_says_what_it_could_not_check(place: Path) -> None:
    verdict = verify(place / "one")
    assert verdict.valid
    assert not verdict.bound
    assert verdict.unchecked == [
        "without ledger: whether the data set was charged for this, and whether these are the files that were released"
    ]


def test_p44_charged_run_that_was_not_closed_released_nothing(place: Path) -> None:
    ledger = Ledger.open(place / LEDGER)
    charged = next(entry for entry in ledger.entries() if entry.event is not None)
    assert charged.event is not None
    other = ledger.spend(charged.event, what="a fit", run="not closed")
    edit_card(place / "one", lambda entries: entries.update(ledger={"entry": other.hash, "run": other.run}))
    problems = verify(place / "one", ledger=place / LEDGER).problems
    assert "the ledger knows the run of entry 5 as charged and not as finished" in problems


def test_p44_audit_files_are_accepted_if_the_ledger_names_them(place: Path) -> None:
    ledger = Ledger.open(place / LEDGER)
    path = place / "one" / "audit.json"
    path.write_text('{"epsilon_lower": 0.2}')
    stray = verify(place / "one", ledger=ledger.path)
    assert stray.valid
    assert stray.unchecked == ["the ledger does not name 'audit.json', so nobody vouches for it"]
    run = json.loads((place / "one" / "model.json").read_text())["ledger"]["run"]
    ledger.record_audit(run, files={path.name: hashlib.sha256(path.read_bytes()).hexdigest()}, what="audit of one")
    named = verify(place / "one", ledger=ledger.path)
    assert (named.valid, named.bound, named.unchecked) == (True, True, [])
    path.write_text('{"epsilon_lower": 0.0}')
    assert verify(place / "one", ledger=ledger.path).problems == [
        "'audit.json' is not the file of an audit that the ledger names"
    ]


def test_p44_folder_of_an_earlier_version_is_valid_and_not_bound(tmp_path: Path) -> None:
    place = Path(shutil.copytree(UNBOUND, tmp_path / "unbound"))
    before = (place / LEDGER).read_bytes()
    verdict = verify(place / "model", ledger=place / LEDGER)
    assert verdict.valid, verdict.problems
    assert verdict.certified
    assert not verdict.bound
    older = "report.html is worded otherwise than this version words it"
    assert [sentence.split(":")[0] for sentence in verdict.unchecked] == [older, "not bound"]
    ledger = Ledger.open(place / LEDGER)
    assert [entry.kind for entry in ledger.entries()] == ["created", "spend", "finished", "spend", "finished"]
    assert ledger.spent() == pytest.approx(1.14, abs=0.1)
    assert (place / LEDGER).read_bytes() == before


# Recomputed


def guarantee(**changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda entries: entries["guarantee"].update(changes)


STATEMENTS: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (
        guarantee(sentence="Perfectly private: epsilon 0."),
        "the sentence of the guarantee does not follow from its numbers",
    ),
    (
        guarantee(sampler="Poisson samples: each row is in a step with probability 0.1, independently"),
        "sample otherwise",
    ),
    (guarantee(accountants={"pld": 0.5, "cf": 0.5, "rdp": 0.5}), "pld says epsilon"),
    (guarantee(accountants={}), "names pld as its accountant and no epsilon by it"),
    (guarantee(epsilon=0.5), "the events cost epsilon"),
    (guarantee(delta=1e-9), "the events cost epsilon"),
    (lambda entries: entries["events"][0].update(epsilon=0.1), "train linear costs epsilon"),
    (lambda entries: entries["plan"].append("total epsilon 0.1 at delta 1e-05"), "the plan ends with another cost"),
    (lambda entries: entries.update(search={"workflow": "standard"}), "called certified although the settings"),
    (
        lambda entries: (
            entries["schema"].update(unit="person", cap=3),
            guarantee(unit="person", cap=3)(entries),
            entries["guarantee"].update(
                sentence=entries["guarantee"]["sentence"].replace("any one row was", "all rows of any one person were")
            ),
        ),
        "the cost of train linear is not for neighbours that differ in 3 rows",
    ),
]


@pytest.mark.parametrize(("change", "words"), STATEMENTS)
def test_p44_every_statement_is_recomputed_from_the_events(
    place: Path, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    """Also without the ledger."""
    edit_card(place / "one", change)
    verdict = verify(place / "one")
    assert not verdict.valid
    assert any(words in problem for problem in verdict.problems), verdict.problems


@pytest.mark.parametrize("text", ["epsilon 0", "", "\0<svg>" * 100, "<html>" * 3000])
def test_p44_page_of_another_model_is_noticed_without_the_ledger(place: Path, text: str) -> None:
    (place / "one" / "report.html").write_text(text)
    assert any("report.html does not say" in problem for problem in verify(place / "one").problems)


def test_number_that_was_changed_in_the_report_is_noticed(place: Path) -> None:
    path = place / "one" / "report.html"
    page = path.read_text()
    stated = re.findall(r"\d+\.\d+%", report.page_text(page))[0]
    path.write_text(page.replace(stated, "1.23%"))
    [problem] = verify(place / "one").problems
    assert problem.startswith("report.html is not the page of this model: expected '")


def test_page_of_another_version_is_left_to_the_ledger(place: Path) -> None:
    other_report(place)
    edit_card(place / "one", lambda entries: entries.update(version="0.0.9"))
    verdict = verify(place / "one")
    assert verdict.valid
    assert verdict.unchecked[0] == "report.html is worded otherwise than this version words it"


# Results that are no model


@pytest.fixture
def selection(tmp_path: Path) -> Path:
    """The folder of a selection beside its ledger."""
    frame = pd.DataFrame({"a": np.linspace(0, 1, 300), "b": np.linspace(1, 0, 300), "y": ["no", "yes"] * 150})
    columns = tuple(Column(name=name, low=0.0, high=1.0) for name in "ab")
    schema = Schema(columns=columns, target="y", classes=("no", "yes"), rows=300)
    select(frame, schema=schema, method="worth", epsilon=1.0, ledger=tmp_path / LEDGER, out=tmp_path / "choice")
    return tmp_path / "choice"


def test_p44_selection_is_bound_to_its_columns(selection: Path) -> None:
    ledger = selection.parent / LEDGER
    verdict = verify(selection, ledger=ledger)
    assert (verdict.valid, verdict.bound, verdict.certified) == (True, True, True), verdict.problems
    assert verify(selection).unchecked
    path = selection / "selection.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"columns": ["b"]}))
    assert verify(selection, ledger=ledger).problems == [
        "'selection.json' is not the file that was released: its hash is another"
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [({"epsilon": 0.1}, "the events cost epsilon"), ({"seed": 3}, "although its run was seeded")],
    ids=["epsilon", "seed"],
)
def test_statements_of_a_selection_are_recomputed(selection: Path, change: dict[str, Any], words: str) -> None:
    path = selection / "selection.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert any(words in problem for problem in verify(selection).problems)


def test_damaged_selection_is_answered_in_one_sentence(selection: Path) -> None:
    path = selection / "selection.json"
    entries = json.loads(path.read_text())
    for name in entries:
        for odd in ODD:
            path.write_text(json.dumps(entries | {name: odd}))
            try:
                words = verify(selection).problems
            except WrongInput as problem:
                words = [str(problem)]
            assert all(len(line.splitlines()) == 1 and len(line) < 600 for line in words), (name, odd)


def test_selection_of_an_earlier_version_is_valid_and_not_bound() -> None:
    verdict = verify(UNBOUND / "selection", ledger=UNBOUND / LEDGER)
    assert verdict.valid, verdict.problems
    assert not verdict.bound
    assert verdict.unchecked[0].startswith("not bound")


def test_only_counts_may_be_priced_for_a_replaced_row(tmp_path: Path) -> None:
    """A training that is not priced as two rows under `replace_one` is found."""
    frame = pd.DataFrame({"a": np.linspace(0, 9, 400), "y": ["no", "yes"] * 200})
    schema = Schema(columns=(Column(name="a"),), target="y", classes=("no", "yes"), rows=400, relation="replace_one")
    released = fit(
        frame, schema=schema, epsilon=1.0, learner="linear", out=tmp_path / "m", ledger=tmp_path / "x.ledger"
    )
    assert verify(tmp_path / "m").valid
    path = tmp_path / "m" / "model.json"
    card = json.loads(path.read_text())
    assert [part["what"] for part in card["events"]] == ["release bounds", "train linear"]
    assert released.epsilon <= 1.0
    card["events"][1]["event"] = card["events"][1]["event"]["event"]
    path.write_text(json.dumps(card))
    assert any("is not for neighbours that differ in 2 rows" in problem for problem in verify(tmp_path / "m").problems)
