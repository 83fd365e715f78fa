"""What is done with a model folder: predict, verify, report."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.cli.people import Run, contents


@pytest.fixture
def model(run: Run, people: Path) -> Path:
    """A model of `people.csv`, charged to `people.csv.ledger`."""
    assert run("fit", people, "--schema", "people.toml", "--out", "m").code == 0
    return Path("m")


def edit(model: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = model / "model.json"
    facts = json.loads(path.read_text())
    change(facts)
    path.write_text(json.dumps(facts))


# predict


def test_predictions_keep_the_order_and_need_no_target(run: Run, model: Path, people: Path) -> None:
    rows = pd.read_csv(people)
    rows[["town", "age"]].to_csv("new.csv", index=False)
    rows[::-1].to_parquet("turned.parquet", index=False)
    assert run("predict", model, "new.csv", "--out", "p.csv", "--json").json == {"rows": 300, "out": "p.csv"}
    assert run("predict", model, "turned.parquet", "--out", "q.parquet").code == 0
    forward, backward = pd.read_csv("p.csv"), pd.read_parquet("q.parquet")
    assert list(forward) == ["prediction", "probability_no", "probability_yes"]
    assert list(forward["prediction"]) == list(backward["prediction"][::-1])
    assert (forward["prediction"] == rows["y"]).mean() > 0.7
    chances = forward[["probability_no", "probability_yes"]]
    assert chances.sum(axis=1).to_numpy() == pytest.approx(1)
    assert ((chances["probability_yes"] > 0.5) == (forward["prediction"] == "yes")).all()


def test_predictions_overwrite_nothing_and_leave_nothing_half_done(run: Run, model: Path, people: Path) -> None:
    Path("p.csv").write_text("precious")
    before = contents(Path.cwd())
    Path("bad.csv").write_text("age,town\n1,nowhere\n")
    for words in (
        [people, "--out", "p.csv"],
        [people, "--out", "none/p.csv"],
        [people, "--out", "p.txt"],
        ["bad.csv", "--out", "q.csv"],
        ["none.csv", "--out", "q.csv"],
        ["digits", "--out", "q.csv"],
        ["wisconsin", "--out", "q.csv"],
    ):
        done = run("predict", model, *words)
        assert (done.code, len(done.err.splitlines())) == (2, 1), words
    Path("bad.csv").unlink()
    assert contents(Path.cwd()) == before


# verify


def test_an_untouched_model_is_valid_by_both_accountants(run: Run, model: Path) -> None:
    told = run("verify", model, "--ledger", "people.csv.ledger", "--json")
    assert told.code == 0
    assert told.json["valid"] is True
    assert told.json["certified"] is True
    assert told.json["delta"] == 1e-5
    assert told.json["epsilon"]["pld"] == pytest.approx(told.json["epsilon"]["cf"], rel=5e-3)
    assert run("verify", model).out.startswith("valid\n")


def more_noise(facts: dict[str, Any]) -> None:
    facts["events"][0]["event"]["event"]["noise"] *= 2


def less_noise(facts: dict[str, Any]) -> None:
    facts["events"][0]["event"]["event"]["noise"] *= 0.99


def fewer_steps(facts: dict[str, Any]) -> None:
    facts["events"][0]["event"]["count"] -= 10


def no_events(facts: dict[str, Any]) -> None:
    facts["events"] = []


def countless_steps(facts: dict[str, Any]) -> None:
    facts["events"][0]["event"]["count"] = 10**40


def smaller_claim(facts: dict[str, Any]) -> None:
    facts["guarantee"]["epsilon"] /= 2


def another_unit(facts: dict[str, Any]) -> None:
    facts["guarantee"]["unit"] = "person"


def unproven(facts: dict[str, Any]) -> None:
    facts["events"].append({"what": "magic", "event": {"kind": "Unproven", "reason": "none"}})


@pytest.mark.parametrize(
    "change", [more_noise, less_noise, fewer_steps, no_events, countless_steps, smaller_claim, another_unit, unproven]
)
def test_a_changed_claim_or_event_is_not_valid(run: Run, model: Path, change: Callable[[dict[str, Any]], None]) -> None:
    edit(model, change)
    told = run("verify", model, "--json")
    assert told.code == 4
    assert told.json["valid"] is False
    assert told.json["problems"]


def test_a_changed_tensor_is_not_valid(run: Run, model: Path) -> None:
    path = model / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    assert run("verify", model, "--json").code == 4


def test_a_seed_struck_out_of_the_model_is_found_in_the_ledger(run: Run, people: Path) -> None:
    call = ("--schema", "people.toml", "--learner", "majority", "--seed", 3)
    assert run("fit", people, *call, "--out", "m").code == 0
    assert run("verify", "m", "--ledger", "people.csv.ledger", "--json").json["certified"] is False
    edit(Path("m"), lambda facts: facts["guarantee"].update(seed=None, certified=True))
    told = run("verify", "m", "--ledger", "people.csv.ledger", "--json")
    assert told.code == 4
    assert "seed" in told.json["problems"][0]


def rewritten(db: sqlite3.Connection) -> None:
    db.execute("DROP TRIGGER no_update")
    db.execute("UPDATE entries SET body = replace(body, 'linear', 'nothing')")


def shortened(db: sqlite3.Connection) -> None:
    db.execute("DROP TRIGGER no_delete")
    db.execute("DELETE FROM entries WHERE number > 0")


def dressed_up(db: sqlite3.Connection) -> None:
    """The guards are put back after the edit."""
    guard = db.execute("SELECT sql FROM sqlite_master WHERE name = 'no_update'").fetchone()[0]
    rewritten(db)
    db.execute(guard)


@pytest.mark.parametrize("tamper", [rewritten, shortened, dressed_up])
def test_a_tampered_ledger_fails_verify_and_stops_every_other_verb(
    run: Run, model: Path, people: Path, tamper: Callable[[sqlite3.Connection], None]
) -> None:
    with sqlite3.connect("people.csv.ledger") as db:
        tamper(db)
    db.close()
    before = Path("people.csv.ledger").read_bytes()
    assert run("verify", model, "--ledger", "people.csv.ledger", "--json").code == 4
    for words in (
        ["ledger", "people.csv.ledger"],
        ["ledger", "people.csv.ledger", "--set-limit", 50],
        ["fit", people, "--schema", "people.toml", "--out", "n"],
    ):
        done = run(*words)
        assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert Path("people.csv.ledger").read_bytes() == before


def test_anothers_ledger_does_not_vouch_for_a_model(run: Run, model: Path, people: Path) -> None:
    call = ("--schema", "people.toml", "--learner", "majority", "--ledger", "other.ledger")
    assert run("fit", people, *call, "--out", "n").code == 0
    assert run("verify", model, "--ledger", "other.ledger").code == 4
    assert run("verify", model, "--ledger", "none.ledger").code == 2


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_cut_or_missing_file_is_no_model(run: Run, model: Path, people: Path, name: str) -> None:
    whole = (model / name).read_bytes()
    for content in (whole[: len(whole) // 2], b"", None):
        (model / name).unlink(missing_ok=True)
        if content is not None:
            (model / name).write_bytes(content)
        for words in (["verify", model], ["predict", model, people, "--out", "p.csv"]):
            done = run(*words, "--json")
            assert (done.code, len(done.err.splitlines())) == (2, 1)
            assert set(done.json) == {"error"}


# report


def test_a_report_goes_where_it_is_told_and_overwrites_nothing_else(run: Run, model: Path) -> None:
    assert run("report", model, "--out", "page.html", "--json").json == {"out": "page.html"}
    page = Path("page.html").read_text()
    assert "<script" not in page
    assert page == Path("m/report.html").read_text()
    assert run("report", model, "--out", "page.html").code == 2
    shutil.copytree(model, "copy")
    Path("copy/report.html").unlink()
    assert run("report", "copy").out.strip() == "copy/report.html"
    assert Path("copy/report.html").read_text() == page
