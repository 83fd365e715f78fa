"""An audit shows claim and evidence in one object, charges what it releases, and says what is for the owner only."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware import Ledger, accounting, attacks, audit, fit, report, verify
from privaware.errors import WrongInput
from privaware.learners.additive import Additive
from privaware.learners.boosted import Boosted
from privaware.learners.linear import Linear
from privaware.preprocessing.ranges import Ranges
from privaware.selectors.cfs_greedy import CfsGreedy
from privaware.selectors.top import Top
from privaware.strategies._search import Search
from privaware.workflow.audit import Audit
from privaware.workflow.run.source import draft_schema

STEPS: dict[str, Any] = {"settings": {"steps": 5}}
DIGITS: dict[str, Any] = {"learner": "linear", "epsilon": 4.0, **STEPS}


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "people.csv", seed=0)


def write_rows(file: Path, seed: int) -> Path:
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame({name: draw.integers(0, 9, 200) for name in "abcdefghijkl"})
    frame["y"] = np.where(frame["a"] > 4, "yes", "no")
    frame.to_csv(file, index=False)
    return file


def test_one_run_of_a_table_is_charged_and_comes_near_its_claim() -> None:
    found = audit("digits", attack="one_run", seed=1, **DIGITS)
    assert 2.8 < found.epsilon_lower < 4.0 < found.epsilon_claimed * 1.01  # type: ignore[operator]
    assert not found.refuted
    assert found.epsilon == found.epsilon_claimed
    assert found.found["method"] == "gaussian"
    assert "It does not refute the claim" in found.sentence


def test_p35_claim_that_an_audit_refutes_is_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the noise that was charged."""
    run = Linear.run
    monkeypatch.setattr(Linear, "run", lambda self, data, noise, rng: run(self, data, noise / 2, rng))
    found = audit("digits", attack="one_run", seed=1, **DIGITS)
    assert found.refuted
    assert found.sentence.startswith("NOT PRIVATE AS CLAIMED")


def test_one_run_on_private_rows_is_charged_to_their_ledger(people: Path, tmp_path: Path) -> None:
    found = audit(
        people, target="y", accept_schema=True, epsilon=2.0, learner="linear", out=tmp_path / "a", canaries=40, **STEPS
    )
    ledger = Ledger.open(f"{people}.ledger")
    assert ledger.spent() == pytest.approx(found.epsilon) == pytest.approx(found.epsilon_claimed)
    written = json.loads((tmp_path / "a" / "audit.json").read_text())
    assert written["epsilon_lower"] == found.epsilon_lower
    assert verify(tmp_path / "a", ledger=ledger.path).valid
    assert "Charged to the ledger" in found.charged


def test_membership_attack_on_private_rows_is_for_the_owner_only(people: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "target": "y",
        "accept_schema": True,
        "learner": "linear",
        "attack": "threshold",
        **STEPS,
    }
    with pytest.raises(WrongInput, match="for their owner only and are never written"):
        audit(people, out=tmp_path / "a", **options)
    found = audit(people, **options)
    assert found.owner_only
    reviewed = replace(draft_schema(people, target="y"), reviewed=True)
    assert not audit(people, **{**options, "accept_schema": False, "schema": reviewed}).certified
    assert Ledger.open(f"{people}.ledger").spent() == 0
    shown = found.json()
    assert shown["auc"] is None
    assert 0 <= shown["internal"]["auc"] <= 1
    assert "Do not publish" in found.charged
    assert not (tmp_path / "a").exists()


def test_membership_game_model_has_the_claimed_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the rows with the noise of all rows would have more: its batches are larger samples."""
    posed, game = [], attacks.membership_game

    def recorded(learner: Any, data: Any, **settings: Any) -> Any:
        posed.append((learner, replace(data.schema, rows=len(data) // 4), settings["noise"]))
        return game(learner, data, **settings)

    monkeypatch.setattr(attacks, "membership_game", recorded)
    result = audit("wisconsin", attack="threshold", learner="dpsgd", settings={"steps": 10}, epsilon=2.0, seed=1)
    learner, schema, noise = posed[0]
    assert accounting.epsilon(learner.cost(schema, noise), 1e-5) == pytest.approx(result.epsilon_claimed, rel=0.01)


def test_membership_attack_on_a_public_benchmark_is_shown() -> None:
    found = audit("wisconsin", attack="threshold", learner="linear", seed=1, **STEPS)
    assert not found.owner_only
    assert found.json()["tailored_auc"] >= 0.5
    assert found.epsilon_lower is None
    assert "gives no lower bound on epsilon" in found.sentence


def test_membership_attack_without_declared_bounds_is_refused(people: Path) -> None:
    with pytest.raises(WrongInput, match="with schema="):
        audit(people, target="y", attack="threshold", learner="linear", **STEPS)
    assert not Path(f"{people}.ledger").exists()


@pytest.mark.parametrize("training", [pytest.param("private", marks=pytest.mark.slow), "without_privacy"])
def test_shadow_models_have_the_needed_count_and_training(training: str) -> None:
    settings = {"steps": 2, "batch": 50, "architecture": {"name": "linear"}}
    options: dict[str, Any] = {"attack": "rmia", "learner": "dpsgd", "shadow_training": training, "settings": settings}
    found = audit("wisconsin", seed=1, **options)
    assert found.found["shadows"]["count"] == 4
    assert found.found["shadows"]["training"] == training.replace("_", " ")


def test_black_box_of_an_audit_is_the_strongest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def find(name: str, **settings: Any) -> Any:
        asked.append(settings)
        return lambda game, rng: game.rows.y

    monkeypatch.setattr(attacks, "find_attack", find)
    audit("wisconsin", attack="black_box", learner="linear", seed=1, **STEPS)
    assert {"reads": "odds", "lr": 1e-3, "epochs": 20} in asked


def test_rows_as_canaries_bound_epsilon_by_guesses() -> None:
    options: dict[str, Any] = {**DIGITS, "insert": "input", "canaries": 300, "seed": 1}
    found = audit("digits", **options)
    assert found.found["method"] == "guesses"
    assert found.epsilon_lower is not None
    assert found.epsilon_lower <= 4.0
    assert not found.refuted
    assert found.found["members"] + found.found["non_members"] == 300


def test_many_runs_read_no_row_and_find_a_learner_without_noise(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"target": "y", "accept_schema": True, "attack": "many_run", "learner": "linear"}
    options |= {"epsilon": 1.0, "runs": 60, "seed": 1, "settings": {"steps": 1}}
    assert not audit(people, **options).refuted
    assert not Path(f"{people}.ledger").exists()
    run = Linear.run
    monkeypatch.setattr(Linear, "run", lambda self, data, noise, rng: run(self, data, noise / 100, rng))
    assert audit(people, **options).refuted


@pytest.mark.parametrize(("learner", "settings"), [(Additive, {"steps": 2}), (Boosted, {"trees": 2, "steps": 2})])
def test_many_runs_find_a_learner_of_tables_without_noise(
    learner: type[Any], settings: dict[str, Any], people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = learner.run
    monkeypatch.setattr(learner, "run", lambda self, data, noise, rng: run(self, data, noise / 100, rng))
    options: dict[str, Any] = {"target": "y", "accept_schema": True, "attack": "many_run", "epsilon": 1.0, "seed": 1}
    found = audit(people, learner=learner.__module__.split(".")[-1], runs=48, settings=settings, **options)
    assert found.refuted


@pytest.mark.parametrize("method", ["cfs_greedy", "top", "bounds"])
def test_selection_step_and_bought_schema_are_audited(people: Path, method: str) -> None:
    options: dict[str, Any] = {"target": "y", "method": method, "attack": "many_run", "epsilon": 1.0, "seed": 1}
    options |= {"runs": 24} if method == "bounds" else {"runs": 24, "accept_schema": True, "settings": {"columns": 1}}
    found = audit(people, **options)
    assert found.subject == method
    assert not found.refuted


@pytest.mark.parametrize(("selector", "runs"), [(CfsGreedy, 80), (Top, 80), (Ranges, 120)])
def test_many_runs_find_a_choice_or_a_schema_without_noise(
    selector: type[Any], runs: int, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are crafted so that one more decides the choice; random ones would hide a choice without any noise."""
    run = selector.run
    monkeypatch.setattr(selector, "run", lambda self, data, noise, rng: run(self, data, noise / 1000, rng))
    options: dict[str, Any] = {} if selector is Ranges else {"accept_schema": True, "settings": {"columns": 1}}
    method = "bounds" if selector is Ranges else selector.__module__.split(".")[-1]
    found = audit(people, target="y", method=method, attack="many_run", epsilon=1.0, seed=1, runs=runs, **options)
    assert found.refuted


SPACE: dict[str, Any] = {"choices": {"lr": [0.5, 4.0]}, "build": {"lr": "$lr", "architecture": {"name": "linear"}}}
RS: dict[str, Any] = {"search": "rs", "space": SPACE}


@pytest.mark.slow
def test_search_step_is_audited_by_many_runs(people: Path) -> None:
    options: dict[str, Any] = {
        "target": "y",
        "accept_schema": True,
        "search": "rs",
        "space": SPACE,
        "epsilon": 2.0,
        "seed": 1,
    }
    found = audit(people, attack="many_run", runs=24, settings={"steps": 1, "batch": 50}, **options)
    assert found.subject == "rs"
    assert not found.refuted
    assert found.epsilon_claimed <= 2.0
    with pytest.raises(WrongInput, match="search= with attack='many_run'"):
        audit(people, attack="one_run", **options)
    assert not Path(f"{people}.ledger").exists()


@pytest.mark.slow
def test_many_runs_find_a_search_without_noise(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row alone is held out in half of the runs, so that it takes the default number of them."""
    run = Search.run
    monkeypatch.setattr(Search, "run", lambda self, data, noise, rng: run(self, data, noise / 100, rng))
    options: dict[str, Any] = {
        "target": "y",
        "accept_schema": True,
        "search": "rs",
        "space": SPACE,
        "epsilon": 2.0,
        "seed": 1,
    }
    assert audit(people, attack="many_run", settings={"steps": 1, "batch": 50}, **options).refuted


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Audit, dict[str, bytes]]:
    """A model folder after its audit, the audit, and the files that were there before."""
    folder = tmp_path_factory.mktemp("audited") / "m"
    fit("digits", epsilon=4.0, learner="linear", out=folder, **STEPS)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".ledger"}
    return folder, audit(folder, attack="one_run", seed=1), before


def test_audited_model_stays_valid_and_ledger_names_the_audit(
    audited: tuple[Path, Audit, dict[str, bytes]], tmp_path: Path
) -> None:
    folder, found, before = audited
    assert found.out == str(folder / "audit.json")
    assert found.epsilon == 0
    assert 2.5 < found.epsilon_lower < 4.0  # type: ignore[operator]
    assert found.epsilon_claimed <= 4.0
    assert {name: (folder / name).read_bytes() for name in before} == before
    verdict = verify(folder, ledger=folder / "run.ledger")
    assert (verdict.valid, verdict.bound, verdict.unchecked) == (True, True, [])
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    (copy / "audit.json").write_bytes((folder / "audit.json").read_bytes() + b" ")
    assert "is not the file of an audit that the ledger names" in verify(copy, ledger=copy / "run.ledger").problems[0]


def test_page_shows_the_audit_and_never_as_a_guarantee(
    audited: tuple[Path, Audit, dict[str, bytes]], tmp_path: Path
) -> None:
    folder = audited[0]
    text = report.page_text((folder / "audit.html").read_text())
    assert "What an audit found" in text
    assert "A lower bound is evidence, not a guarantee." in text
    assert "claimed epsilon 4 measured epsilon at least 3." in text
    assert "What an audit found" not in report.page_text((folder / "report.html").read_text())
    elsewhere = report.write(folder, tmp_path / "page.html")
    assert "What an audit found" in report.page_text(elsewhere.read_text())


def test_dry_audit_says_the_price_and_reads_nothing(people: Path) -> None:
    found = audit(people, target="y", accept_schema=True, learner="linear", dry_run=True, canaries=40, **STEPS)
    assert found.found == {}
    assert found.epsilon_claimed == pytest.approx(1.0, rel=0.01)
    assert "was not run" in found.sentence
    assert not Path(f"{people}.ledger").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attack": "one_rum"}, "attacks has nothing called 'one_rum'"),
        ({"space": "weights"}, "space"),
        ({"canaries": 3}, "at least 20 canaries"),
        ({"attack": "many_run", "runs": 2}, "at least 20 runs"),
        ({"learner": "majority"}, "too few for canaries in one run"),
        ({"learner": "pate", "public": "others.csv"}, "splits them into parts"),
        ({"method": "cfs_greedy", "attack": "threshold"}, "releases no model"),
        ({"attack": "lira", "shadows": 0}, "at least 2 shadow models for lira"),
        ({"attack": "lira", "shadow_training": "public"}, "shadow_training"),
        ({"attack": "rmia", "shadow_training": "without_privacy"}, "a learner that can be trained without noise"),
    ],
)
def test_wrong_calls_are_refused_before_a_charge(people: Path, options: dict[str, Any], words: str) -> None:
    if options.get("public"):
        options = {**options, "public": write_rows(people.with_name(options["public"]), seed=1)}
    with pytest.raises(WrongInput, match=words):
        audit(people, target="y", accept_schema=True, **options)
    assert not Path(f"{people}.ledger").exists()


def test_sentence_of_a_refuted_claim_has_both_numbers() -> None:
    found = Audit(
        subject="linear",
        settings={"attack": "one_run"},
        found={"epsilon_lower": 6.1234, "confidence": 0.95, "refuted": True},
        epsilon_claimed=4.0,
        delta=1e-5,
        epsilon=0.0,
        charged="nothing",
    )
    assert "epsilon 4 at delta 1e-5 is refuted with 99.9% confidence; epsilon is at least 6.123 (95%" in found.sentence
    assert not replace(found, found={**found.found, "refuted": False}).refuted


def test_seeded_audit_is_repeatable_and_not_certified() -> None:
    one, two = (audit("digits", attack="one_run", seed=4, **DIGITS) for _ in range(2))
    assert one.epsilon_lower == two.epsilon_lower
    assert not one.certified


def searched_settings(**more: Any) -> dict[str, Any]:
    space: dict[str, Any] = {"space": "linear", "trials": 2}
    return {"search": "rs", "search_settings": space, "learner": "linear", **more}


@pytest.mark.parametrize(
    "options",
    [
        {"score": True, "learner": "linear"},
        {"score": True, "learner": "linear", "unit": "a", "cap": 2},
        searched_settings(),
        searched_settings(score_epsilon=1.0),
        {"search": "rs", "search_settings": {"trials": 2}},
    ],
    ids=["score", "score of persons", "search", "search and score", "search of auto"],
)
def test_model_with_a_score_or_a_search_is_audited(people: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    fit(people, target="y", accept_schema=True, epsilon=4.0, out=tmp_path / "m", **options)
    found = audit(tmp_path / "m", attack="one_run", seed=1, canaries=40)
    assert found.epsilon_claimed <= 4.0
    assert found.epsilon_lower is not None
    assert not found.refuted
    assert any("chosen candidate" in line for line in found.plan) == ("search" in options)


def test_space_and_search_mean_the_same_as_for_fit(people: Path) -> None:
    options: dict[str, Any] = {"target": "y", "accept_schema": True, "epsilon": 2.0, "dry_run": True}
    own: dict[str, Any] = {"attack": "many_run", "settings": {"steps": 1, "batch": 50}}
    plan = audit(people, **options, **own, search="rs", space=SPACE).plan
    with pytest.warns(DeprecationWarning, match="search= names a strategy now"):
        assert audit(people, **options, **own, search=SPACE).plan == plan
    with pytest.warns(DeprecationWarning, match="called insert='input' now"):
        found = audit(people, **options, learner="linear", space="input", canaries=40)
    assert found.settings["space"] == "input"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"search": "grid", "space": SPACE}, "search='rs'"),
        ({"search": "rs"}, "together"),
        ({"space": SPACE}, "together"),
    ],
)
def test_half_of_a_search_is_refused(people: Path, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongInput, match=words):
        audit(people, target="y", accept_schema=True, attack="many_run", dry_run=True, **wrong)


@pytest.mark.parametrize("given", [{"learner": "linear"}, {"settings": {"steps": 1}}])
def test_model_folder_takes_no_options_of_data(people: Path, tmp_path: Path, given: dict[str, Any]) -> None:
    fit(people, target="y", accept_schema=True, epsilon=4.0, learner="majority", out=tmp_path / "m")
    with pytest.raises(WrongInput, match=f"expected no {next(iter(given))}=? with a model folder"):
        audit(tmp_path / "m", **given)
