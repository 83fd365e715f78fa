"""A run of the page is shown before its charge, goes on without the page, and resumes on its charge."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from privaware import audit, fit
from privaware._rounded import rounded_up
from privaware.events import Pure
from privaware.ledger import Ledger
from privaware.ui._folder import Folder
from privaware.ui._runs import Run, Runs
from privaware.ui._tasks import Task, fit_task
from tests.browser import Tab, chromium, needs_chromium
from tests.cli.people import TOML, contents, write_people
from tests.report.test_page import CUT
from tests.ui.server import STUB, TOKEN, Served, served

FORM = {"data": "people.csv", "target": "y", "out": "new"}
COMMAND = (sys.executable, "-c", STUB)
CHARTLESS = "from privaware import cli; from privaware.report import _charts; _charts.render = lambda _: ''; cli.main()"
"""The command line without the chart of the report, which takes longer than the rest of a small run."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    write_people(place / "people.csv")
    (place / "people.toml").write_text(TOML)
    return place


@pytest.fixture
def stub(place: Path) -> Iterator[Served]:
    with served(place, COMMAND) as opened:
        yield opened


def start(page: Served, **fields: str) -> tuple[int, str, dict[str, str]]:
    return page.ask(f"/{TOKEN}/fit", form={**FORM, **fields})


def act(page: Served, action: str, name: str = "fit/new") -> int:
    return page.ask(f"/{TOKEN}/run/{name}", form={"action": action})[0]


def kill_after_charge(task: Task) -> None:
    code = "import os, sys; from privaware import cli, ledger; spend = ledger.Ledger.spend"
    code += "; ledger.Ledger.spend = lambda *a, **b: (spend(*a, **b), os._exit(9)); cli.main(sys.argv[1:])"
    assert subprocess.run([sys.executable, "-c", code, *task.words], capture_output=True, check=False).returncode == 9


def test_plan_offers_the_charge_and_makes_none(stub: Served, place: Path) -> None:
    before = contents(place)
    status, text, _ = stub.ask(f"/{TOKEN}/plan", form={"data": "people.csv", "target": "y", "limit": "3"})
    assert status == 200
    assert "All runs on these rows may spend epsilon 3 in total." in text
    assert "may spend epsilon 1 in total" in stub.ask(f"/{TOKEN}/plan", form={"data": "people.csv", "target": "y"})[1]
    assert "and train people-model</button>" in text
    text = stub.ask(f"/{TOKEN}/plan", form={"data": "people.csv", "target": "y", "limit": "0.5"})[1]
    assert "This run would be refused: expected a limit of at least" in text
    assert "chosen under" not in text
    assert contents(place) == before
    assert "Runs" not in stub.ask(f"/{TOKEN}/")[1]


def test_plan_beyond_the_limit_offers_no_charge(place: Path, page: Served) -> None:
    plan = {"data": "people.csv", "target": "y", "learner": "majority"}
    status, text, _ = page.ask(f"/{TOKEN}/plan", form={**plan, "epsilon": "2.9"})
    assert status == 200
    assert "The ledger has no room for this run." in text
    assert text.count("This run would be refused") == 1
    assert 'action="fit"' not in text
    assert 'action="fit"' in page.ask(f"/{TOKEN}/plan", form={**plan, "epsilon": "0.1"})[1]


def test_plan_for_rows_of_another_file_offers_no_charge(stub: Served, place: Path) -> None:
    fit(place / "people.csv", schema=place / "people.toml", epsilon=1.0, learner="majority")
    pd.read_csv(place / "people.csv").drop(columns="town").to_csv(place / "part.csv", index=False)
    before = contents(place)
    plan = {"data": "part.csv", "target": "y", "learner": "majority"}
    text = stub.ask(f"/{TOKEN}/plan", form=plan)[1]
    assert "&#39;part.csv&#39; probably shares rows with a table that was charged to" in text
    assert "A ledger in this folder is chosen under “More choices” above." in text
    assert 'action="fit"' not in text
    assert "A new ledger" not in text
    assert 'action="fit"' in stub.ask(f"/{TOKEN}/plan", form={**plan, "new_ledger": "on"})[1]
    assert contents(place) == before


def test_plan_names_the_ledger_of_rows_under_another_name(stub: Served, place: Path) -> None:
    fit(place / "people.csv", schema=place / "people.toml", epsilon=1.0, limit=3.0, learner="majority")
    shutil.copy(place / "people.csv", place / "copy.csv")
    text = stub.ask(f"/{TOKEN}/plan", form={"data": "copy.csv", "target": "y", "learner": "majority"})[1]
    assert '<p id="budget">people.csv.ledger: epsilon ' in text


def test_plan_for_another_unit_states_no_total(stub: Served, place: Path) -> None:
    frame = pd.read_csv(place / "people.csv")
    frame.assign(pid=frame.index // 2).to_csv(place / "visits.csv", index=False)
    fit(
        place / "visits.csv", target="y", unit="pid", cap=2, epsilon=1.0, limit=1.2, learner="majority", new_ledger=True
    )
    text = stub.ask(f"/{TOKEN}/plan", form={"data": "visits.csv", "target": "y", "learner": "majority"})[1]
    budget = "is spent for the unit pid (cap 2), so that no total includes this run.</p>"
    assert budget in text
    assert "This run would be refused:" in text
    assert "no room" not in text


def test_plan_of_a_run_that_was_given_up_is_charged_again(stub: Served, place: Path) -> None:
    plan = {"data": "people.csv", "schema": "people.toml", "learner": "majority", "out": "new"}
    kill_after_charge(fit_task(Folder(place), {**plan, "limit": "3"}))
    assert "is spent; it stays so if the file is the same." in stub.ask(f"/{TOKEN}/plan", form=plan)[1]
    Ledger.open(place / "people.csv.ledger").close(1)
    assert "is spent; after this run it is" in stub.ask(f"/{TOKEN}/plan", form=plan)[1]


def test_plan_with_another_limit_than_the_ledger_is_refused(page: Served) -> None:
    plan = {"data": "people.csv", "target": "y", "learner": "majority", "epsilon": "0.1", "limit": "7"}
    status, text, _ = page.ask(f"/{TOKEN}/plan", form=plan)
    assert (status, "already has the limit 3; leave the limit empty" in text) == (400, True)
    assert page.ask(f"/{TOKEN}/plan", form={**plan, "limit": "3"})[0] == 200


def test_run_ends_with_its_result(stub: Served) -> None:
    status, _, headers = start(stub)
    assert (status, headers["location"]) == (303, "./run/fit/new")
    text = stub.until("run/fit/new", "finished")
    assert "Trained in new" in text
    assert "Charged to the ledger as entry 1." in text
    assert "privaware fit --epsilon=1.0 --target=y --out=new -- people.csv" in text


def test_progress_is_shown_while_a_run_works(stub: Served) -> None:
    start(stub, target="slow")
    assert '<progress max="12" value="3"' in stub.until("run/fit/new", "step 3 of 12")
    assert "running" in stub.ask(f"/{TOKEN}/")[1]


@pytest.mark.parametrize("path", ["predict?model=new", "model/new", "report/new"])
def test_model_in_training_is_said_to_be_in_progress(stub: Served, path: str) -> None:
    start(stub, target="slow")
    status, text, _ = stub.ask(f"/{TOKEN}/{path}")
    assert (status, "a run is in progress that trains &#39;new&#39;" in text) == (400, True)
    assert "a run is in progress" in stub.ask(f"/{TOKEN}/predict", form={"model": "new", "data": "people.csv"})[1]
    assert stub.ask(f"/{TOKEN}/predict")[0] == 200


def test_two_predictions_of_the_same_rows_run_together(folder: Path, tmp_path: Path) -> None:
    place = Path(shutil.copytree(folder, tmp_path / "work"))
    with served(place, (sys.executable, "-c", "import time; time.sleep(60)")) as page:
        form = {"model": "model", "data": "people.csv"}
        asked = [page.ask(f"/{TOKEN}/predict", form={**form, "keep": keep}) for keep in ("", "age", "age", "")]
    names = ["people.csv", "people-2.csv", "people-2.csv", "people.csv"]
    assert [(status, headers.get("location")) for status, _, headers in asked] == [
        (303, f"./run/predict/predictions/{name}") for name in names
    ]


def test_cancelled_run_resumes_on_its_charge(stub: Served, place: Path) -> None:
    start(stub, target="slow")
    stub.until("run/fit/new", "Charged")
    assert act(stub, "cancel") == 303
    text = stub.until("run/fit/new", ">cancelled<")
    assert "Resuming continues on the same charge and costs nothing more." in text
    assert act(stub, "resume") == 303
    assert "Resuming: this run is already charged" in stub.until("run/fit/new", ">finished<")
    assert act(stub, "resume") == 400


def test_run_cancelled_before_its_charge_cost_nothing(stub: Served) -> None:
    start(stub, target="early")
    stub.until("run/fit/new", "Reading.")
    act(stub, "cancel")
    text = stub.until("run/fit/new", ">cancelled<")
    assert "cancelled before it was charged, so it cost nothing" in text
    assert 'value="resume"' not in text


def test_unfinished_run_is_resumable_after_a_restart(place: Path) -> None:
    with served(place, COMMAND) as first:
        start(first, target="slow")
        first.until("run/fit/new", "Charged")
    with served(place, COMMAND) as second:
        assert "interrupted</span>, can be resumed" in second.ask(f"/{TOKEN}/")[1]
        assert "costs nothing more" in second.ask(f"/{TOKEN}/run/fit/new")[1]
        act(second, "resume")
        second.until("run/fit/new", ">finished<")
    with served(place, COMMAND) as third:
        assert "Runs" not in third.ask(f"/{TOKEN}/")[1]


def test_forgotten_run_is_not_listed_again(place: Path) -> None:
    with served(place, COMMAND) as first:
        start(first, target="slow")
        first.until("run/fit/new", "Charged")
        assert act(first, "forget") == 400
    with served(place, COMMAND) as second:
        assert act(second, "forget") == 303
        assert second.ask(f"/{TOKEN}/run/fit/new")[0] == 400


def test_failed_run_says_why_and_keeps_the_form(stub: Served, place: Path) -> None:
    start(stub, target="wrong", epsilon="0.25")
    text = stub.until("run/fit/new", ">failed<")
    assert "expected a better target, got &#39;wrong&#39; of " in text
    assert str(place) not in text
    assert '<input type="hidden" name="epsilon" value="0.25">' in text
    form = stub.ask(f"/{TOKEN}/plan?data=people.csv&target=wrong&epsilon=0.25")[1]
    assert 'name="epsilon" value="0.25"' in form


def test_wrong_form_keeps_what_was_typed(stub: Served) -> None:
    typed = {"data": "people.csv", "target": "incme", "epsilon": "0.25", "limit": "7", "encoding": "latin-1"}
    status, text, _ = stub.ask(f"/{TOKEN}/plan", form=typed)
    assert status == 400
    assert 'role="alert"' in text
    assert all(f'value="{value}"' in text for name, value in typed.items() if name != "data")
    assert "<option selected>people.csv</option>" in text


def test_one_run_at_a_time_for_each_folder(stub: Served) -> None:
    start(stub, target="slow")
    assert start(stub, target="slow")[0] == 303  # the button was pressed twice
    status, text, _ = start(stub, target="slow", epsilon="2")
    assert status == 400
    assert "another run is using &#39;new&#39;" in text
    assert stub.ask(f"/{TOKEN}/")[1].count("Train new") == 1


def test_folder_of_an_interrupted_run_is_kept_for_it(stub: Served) -> None:
    start(stub, target="slow")
    stub.until("run/fit/new", "Charged")
    act(stub, "cancel")
    stub.until("run/fit/new", ">cancelled<")
    status, text, _ = start(stub, target="slow", epsilon="2")
    assert (status, "belongs to a run that was interrupted" in text) == (400, True)
    assert start(stub, target="slow")[0] == 303
    assert "Resuming" in stub.until("run/fit/new", ">finished<")


def test_refuted_claim_is_a_finished_audit() -> None:
    for verb, state in (("audit", "finished"), ("fit", "failed")):
        task = Task(verb=verb, out="model", form={}, words=())
        assert Run(task=task, code=4).state == state


def test_page_of_a_run_names_neither_token_nor_place(stub: Served, place: Path) -> None:
    start(stub, target="slow")
    text = stub.until("run/fit/new", "Charged")
    assert TOKEN not in text
    assert str(place) not in text


def test_finished_model_is_not_planned_over(page: Served) -> None:
    status, text, _ = page.ask(f"/{TOKEN}/plan", form={"data": "people.csv", "target": "y", "out": "model"})
    assert status == 400
    assert "holds a finished model, which is never overwritten" in text


def test_first_line_that_may_be_a_row_is_not_shown(stub: Served, place: Path) -> None:
    (place / "words.csv").write_text("Waldheim,yes\nNeustadt,no\n")
    (place / "numbers.csv").write_text("47,Waldheim,yes\n48,Neustadt,no\n")
    for name in ("words.csv", "numbers.csv"):
        for query in ("", "&list=columns", "&header=no"):
            assert "Waldheim" not in stub.ask(f"/{TOKEN}/plan?data={name}{query}")[1]
    assert "Columns: age, town, y" in stub.ask(f"/{TOKEN}/plan?data=people.csv&header=yes")[1]


def test_odd_name_of_a_folder_leads_to_its_page(stub: Served) -> None:
    location = start(stub, out="50% a#b?c")[2]["location"]
    assert location == "./run/fit/50%25%20a%23b%3Fc"
    assert "Trained in 50% a#b?c" in stub.until(location[2:], ">finished<")


def test_request_for_headers_alone_predicts_nothing(page: Served, folder: Path) -> None:
    before = contents(folder)
    assert page.ask(f"/{TOKEN}/predict?model=model&data=people.csv", method="HEAD")[0] == 200
    assert "Predict people" not in page.ask(f"/{TOKEN}/")[1]
    assert contents(folder) == before


@pytest.mark.parametrize("path", ["fit", "audit/model"])
def test_address_alone_starts_nothing(page: Served, path: str) -> None:
    assert page.ask(f"/{TOKEN}/{path}")[0] == 405


def test_address_alone_cancels_nothing(stub: Served) -> None:
    start(stub, target="slow")
    stub.until("run/fit/new", "Charged")
    for query in ("?action=cancel", "?action=forget"):
        assert "running" in stub.ask(f"/{TOKEN}/run/fit/new{query}")[1]


@pytest.mark.parametrize("path", ["fit", "predict", "audit/model", "ledger/people.csv.ledger", "run/fit/new"])
@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Sec_Fetch_Site": "same-site"}])
def test_action_from_another_page_is_refused(page: Served, folder: Path, path: str, headers: dict[str, str]) -> None:
    before = contents(folder)
    form = {**FORM, "model": "model", "limit": "99", "action": "cancel"}
    assert page.ask(f"/{TOKEN}/{path}", form=form, **headers)[:2] == (403, "")
    assert page.ask(f"/wrong/{path}", form=form)[:2] == (403, "")
    assert contents(folder) == before


def test_only_predictions_can_be_downloaded(page: Served) -> None:
    for name in ("people.csv", "model/model.json", "../people.csv", "predictions/../people.csv", "%2fetc%2fpasswd"):
        status, text, _ = page.ask(f"/{TOKEN}/file/{name}")
        assert (status, "expected the name of something in this folder" in text) == (400, True)


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Iterator[tuple[Served, Path]]:
    """The page over a copy of the folder with a model, which a test may change."""
    place = Path(shutil.copytree(folder, tmp_path / "work"))
    with served(place) as opened:
        yield opened, place


def test_limit_can_be_raised_on_the_page(copied: tuple[Served, Path]) -> None:
    page, place = copied
    path = f"/{TOKEN}/ledger/people.csv.ledger"
    status, _, headers = page.ask(path, form={"limit": "4.5"})
    assert (status, headers["location"]) == (303, "../ledger/people.csv.ledger")
    assert " of 4.5 spent" in page.ask(path)[1]
    assert Ledger.open(place / "people.csv.ledger").json()["limits"][0]["limit"] == 4.5


@pytest.mark.parametrize(("limit", "problem"), [("0.5", "cannot be taken back"), ("lots", "as a number")])
def test_limit_below_the_spent_epsilon_is_refused(copied: tuple[Served, Path], limit: str, problem: str) -> None:
    page, place = copied
    status, text, _ = page.ask(f"/{TOKEN}/ledger/people.csv.ledger", form={"limit": limit})
    assert (status, problem in text, f'value="{limit}"' in text) == (400, True, True)
    assert str(place) not in text
    assert Ledger.open(place / "people.csv.ledger").limit == 3.0


def test_ledger_shows_changes_of_the_limit_and_totals(copied: tuple[Served, Path]) -> None:
    page, place = copied
    path = f"/{TOKEN}/ledger/people.csv.ledger"
    page.ask(path, form={"limit": "4.5"})
    ledger = Ledger.open(place / "people.csv.ledger")
    ledger.spend(Pure(epsilon=0.5), what="a sum", run="a-sum")
    text = page.ask(path)[1]
    assert "limit changed from 3 to 4.5" in text
    assert f">{rounded_up(ledger.spent())}</td><td" in text


def test_unfinished_charge_can_be_given_up(copied: tuple[Served, Path]) -> None:
    page, place = copied
    path = f"/{TOKEN}/ledger/people.csv.ledger"
    ledger = Ledger.open(place / "people.csv.ledger")
    entry = ledger.spend(Pure(epsilon=0.5), what="a sum", run="a-sum")
    assert f"Entry {entry.number} (a sum) is charged but not finished" in page.ask(path)[1]
    for wrong in ("999", "nan", "-1", ""):
        assert page.ask(path, form={"close": wrong})[0] == 400
    assert page.ask(path, form={"close": str(entry.number)})[0] == 303
    assert "Unfinished runs" not in page.ask(path)[1]
    assert ledger.closing("a-sum") is not None


def test_run_whose_charge_was_given_up_is_not_resumed(place: Path) -> None:
    """It would be charged again."""
    ledger = Ledger.create(place / "people.csv.ledger", limit=3.0)
    assert ledger.spend(Pure(epsilon=0.5), what="a training", run="a-run").number == 1
    with served(place, COMMAND) as page:
        start(page, target="slow")
        page.until("run/fit/new", "Charged to the ledger as entry 1.")
        act(page, "cancel")
        assert 'value="resume"' in page.until("run/fit/new", ">cancelled<")
        assert page.ask(f"/{TOKEN}/ledger/people.csv.ledger", form={"close": "1"})[0] == 303
        assert "Its charge is closed in the ledger" in page.ask(f"/{TOKEN}/run/fit/new")[1]
        assert act(page, "resume") == 400
    with served(place, COMMAND) as page:
        assert "Runs" not in page.ask(f"/{TOKEN}/")[1]


def test_charge_is_not_given_up_while_a_run_works(stub: Served, place: Path) -> None:
    ledger = Ledger.create(place / "people.csv.ledger", limit=3.0)
    entry = ledger.spend(Pure(epsilon=0.5), what="a sum", run="a-sum")
    start(stub, target="slow")
    status, text, _ = stub.ask(f"/{TOKEN}/ledger/people.csv.ledger", form={"close": str(entry.number)})
    assert (status, "expected no training on this page" in text) == (400, True)
    assert ledger.closing("a-sum") is None


def test_price_includes_the_check_of_persons(stub: Served, place: Path) -> None:
    lines = (place / "people.csv").read_text().splitlines()
    numbered = [f"PatNr,{lines[0]}", *(f"p{number},{line}" for number, line in enumerate(lines[1:]))]
    (place / "visits.csv").write_text("\n".join(numbered) + "\n")
    form = {"data": "visits.csv", "target": "y", "learner": "majority"}
    Ledger.create(place / "visits.csv.ledger", limit=1.0)
    page = stub.ask(f"/{TOKEN}/plan", form={**form, "check_persons": "yes"})[1]
    assert "Charge epsilon 1 and train" in page


def test_wrong_audit_is_one_sentence_on_the_model_page(page: Served) -> None:
    status, text, _ = page.ask(f"/{TOKEN}/audit/model", form={"attack": "many_run", "runs": "few"})
    assert (status, "expected runs as a whole number" in text, 'value="few"' in text) == (400, True, True)


def test_report_can_be_saved_as_a_file(page: Served) -> None:
    _, text, headers = page.ask(f"/{TOKEN}/report/model?save")
    assert headers["content-disposition"] == "attachment; filename*=UTF-8''model-report.html"
    assert "What an attacker can do" in text


def test_report_with_an_audit_is_saved_under_its_name(copied: tuple[Served, Path]) -> None:
    page, place = copied
    fit(place / "people.csv", schema=place / "people.toml", epsilon=0.5, learner="majority", out=place / "small")
    audit(place / "small", attack="many_run", runs=20)
    _, _, headers = page.ask(f"/{TOKEN}/report/small?save")
    assert headers["content-disposition"] == "attachment; filename*=UTF-8''small-audit.html"
    assert '/report/small?released"' in page.ask(f"/{TOKEN}/model/small")[1]
    _, text, headers = page.ask(f"/{TOKEN}/report/small?released&save")
    assert headers["content-disposition"] == "attachment; filename*=UTF-8''small-report.html"
    assert "What an audit found" not in text
    assert text == (place / "small" / "report.html").read_text()


DPSGD = {**FORM, "schema": "people.toml", "learner": "dpsgd", "settings": "steps=400", "limit": "3"}


def cancel_real_training(place: Path) -> None:
    with served(place) as page:
        assert start(page, **DPSGD)[0] == 303
        page.until("run/fit/new", "Charged to the ledger as entry 1.", every=0.05)
        act(page, "cancel")
        assert "continues on the same charge" in page.until("run/fit/new", ">cancelled<")
    assert not (place / "new" / "model.json").exists()


def test_real_training_is_cancelled_and_resumed_on_one_charge(place: Path) -> None:
    """The run belongs to its data, settings and folder: Python resumes what the page has begun."""
    cancel_real_training(place)
    said: list[str] = []
    options: dict[str, Any] = {"target": "y", "schema": place / "people.toml", "limit": 3.0, "say": said.append}
    fit(place / "people.csv", epsilon=1.0, learner="dpsgd", settings={"steps": 400}, out=place / "new", **options)
    assert any(line.startswith("Resuming: this run is already charged") for line in said)
    assert len(Ledger.open(place / "people.csv.ledger").history()) == 1


@pytest.mark.slow
def test_real_training_is_resumed_on_the_page(place: Path) -> None:
    cancel_real_training(place)
    with served(place) as page:
        assert act(page, "resume") == 303
        assert "Resuming: this run is already charged" in page.until("run/fit/new", ">finished<")
    assert len(Ledger.open(place / "people.csv.ledger").history()) == 1
    assert json.loads((place / "new" / "model.json").read_text())["learner"] == "dpsgd"


@pytest.mark.parametrize("entry", [1, None], ids=["known entry", "unknown entry"])
def test_resumed_run_on_changed_data_is_not_charged_again(place: Path, entry: int | None) -> None:
    task = fit_task(Folder(place), {**FORM, "learner": "majority", "limit": "3"})
    kill_after_charge(task)
    Runs(Folder(place))._remember(task, True, entry)
    rows, content = place / "people.csv", (place / "people.csv").read_text()
    lines = content.splitlines()
    rows.write_text("\n".join([lines[0], lines[2], *lines[2:]]) + "\n")
    with served(place, (sys.executable, "-c", CHARTLESS)) as page:
        assert act(page, "resume") == 303
        assert "this run cannot continue on its charge" in page.until("run/fit/new", ">failed<")
        assert len(Ledger.open(f"{rows}.ledger").history()) == 1
        rows.write_text(content)
        assert act(page, "resume") == 303
        assert "Resuming: this run is already charged" in page.until("run/fit/new", ">finished<")
    assert len(Ledger.open(f"{rows}.ledger").history()) == 1


def test_resumed_run_makes_no_new_ledger(place: Path) -> None:
    task = fit_task(Folder(place), {**FORM, "learner": "majority", "limit": "3"})
    kill_after_charge(task)
    Runs(Folder(place))._remember(task, True, 1)
    (place / "people.csv.ledger").rename(place / "moved")
    (place / "people.csv").write_text((place / "people.csv").read_text().replace(",yes", ",no", 50))
    with served(place) as page:
        act(page, "resume")
        text = page.until("run/fit/new", ">failed<")
    assert "this run cannot continue on its charge" in text or "probably shares rows with" in text
    assert not (place / "people.csv.ledger").exists()


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with chromium() as opened:
        yield opened


def press(tab: Tab, selector: str, then: str, **fields: str) -> None:
    """Fills in fields by name, presses a button, and waits for an element of the next page."""
    for name, value in fields.items():
        tab.run(f"document.querySelector('[name={name}]').value = {value!r}")
    tab.run(f"window.old = true; document.querySelector({selector!r}).click()")
    tab.wait(f"!window.old && document.readyState === 'complete' && document.querySelector({then!r})")


def ended(tab: Tab, state: str) -> str:
    """The text of the page of a run in this state."""
    for _ in range(4):  # a wait takes at most 30 seconds
        with suppress(TimeoutError):
            tab.wait(f"document.querySelector('#state span').textContent === {state!r}")
            break
    return str(tab.run("document.querySelector('main').textContent"))


@needs_chromium
def test_training_and_predicting_in_a_browser(tab: Tab, place: Path) -> None:
    with served(place) as page:
        tab.show(page.address)
        press(tab, "a[href='plan?data=people.csv']", "#price")
        press(tab, "#list", "#names", header="yes")
        assert tab.run("[...document.querySelectorAll('#columns option')].map(o => o.value)") == ["age", "town", "y"]
        press(tab, "#price", "#confirm", target="y", limit="3", schema="people.toml", learner="majority")
        assert not (place / "people.csv.ledger").exists()
        press(tab, "#confirm button", "#state")
        assert "Charged to the ledger as entry 1." in ended(tab, "finished")
        press(tab, "#next a[href*=predict]", "[name=model]")
        press(tab, "form button", "#state", data="people.csv")
        assert "300 predictions: predictions/people.csv" in ended(tab, "finished")
        tab.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(place.parent))
        tab.run("document.querySelector('#next a[download]').click()")
        for _ in range(200):
            if (saved := place.parent / "people.csv").is_file():
                break
            time.sleep(0.05)
        assert saved.read_text().startswith("prediction,probability_no")
        assert tab.problems == []


@needs_chromium
def test_cancelling_and_resuming_in_a_browser(tab: Tab, stub: Served) -> None:
    tab.show(f"{stub.address}plan?data=people.csv&target=y")
    press(tab, "#price", "#confirm", learner="majority")
    tab.run("document.querySelector('#confirm [name=target]').value = 'slow'")
    press(tab, "#confirm button", "progress[value='3']")
    press(tab, "form button", "#state")
    assert "can be resumed on it" not in ended(tab, "cancelled")
    press(tab, "#resume button", "#state")
    assert "Trained in people-model" in ended(tab, "finished")
    assert tab.problems == []


@needs_chromium
@pytest.mark.parametrize("path", ["plan?data=people.csv&header=yes", "predict", "model/model", "run/fit/new"])
def test_forms_fit_a_narrow_screen(tab: Tab, page: Served, stub: Served, path: str) -> None:
    start(stub, target="wrong")
    stub.until("run/fit/new", ">failed<")
    tab.show(f"{(stub if path.startswith('run') else page).address}{path}", width=390, dark=True)
    tab.run("for (const part of document.querySelectorAll('details')) part.open = true")
    assert tab.run(CUT) == []
    assert tab.run("document.documentElement.scrollWidth") <= 390
    unnamed = "[...document.querySelectorAll('input:not([type=hidden]), select')].filter(e => !e.labels.length).length"
    assert tab.run(unnamed) == 0
    assert tab.problems == []


@needs_chromium
def test_limit_in_a_browser(tab: Tab, copied: tuple[Served, Path]) -> None:
    page, _ = copied
    tab.show(f"{page.address}ledger/people.csv.ledger")
    press(tab, "#limit button", "#problem", limit="0.5")
    assert "cannot be taken back" in tab.run("document.querySelector('#problem').textContent")
    press(tab, "#limit button", "main:not(:has(#problem))", limit="5")
    assert " of 5 spent" in tab.run("document.querySelector('.lead').textContent")


@needs_chromium
def test_audit_and_report_in_a_browser(tab: Tab, copied: tuple[Served, Path]) -> None:
    page, place = copied
    schema = place / "people.toml"
    fit(place / "people.csv", schema=schema, epsilon=0.5, learner="majority", out=place / "small")
    tab.show(f"{page.address}model/small")
    tab.run("document.querySelector('#audit [name=ledger]').value = 'people.csv.ledger'")
    press(tab, "#audit button", "#state", attack="many_run", runs="20")
    assert "Nothing was charged" in ended(tab, "finished")
    assert (place / "small" / "audit.json").is_file()
    press(tab, "#next a[href*=report]", "h2")
    assert "What an audit found" in tab.run("document.body.textContent")
    assert tab.problems == []
