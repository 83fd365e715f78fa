"""The local page shows ledger, models, plan, report and verdict, spends nothing, and works in a browser."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from privaware.errors import WrongInput
from privaware.events import Gaussian, Pure, Selected, to_json
from privaware.ledger import Ledger
from privaware.ui import serve
from privaware.ui._folder import Folder, model_summary
from tests.browser import Tab, chromium, needs_chromium
from tests.cli.people import contents
from tests.report.pages import card_entries
from tests.report.test_page import CUT
from tests.ui.server import TOKEN, Served, served


def test_folder_finds_its_files_and_says_what_is_damaged(folder: Path) -> None:
    ledgers, models = Folder(folder).summaries()
    assert [(ledger["name"], ledger["limit"], ledger["charges"]) for ledger in ledgers] == [
        ("people.csv.ledger", "3", 1)
    ]
    assert [model["name"] for model in models] == ["damaged", "model"]
    assert "damaged" in models[0]["problem"]
    assert models[1]["certified"]
    assert list(Folder(folder).data_files()) == ["people.csv"]


def test_limit_that_is_spent_is_not_shown_as_exceeded(tmp_path: Path) -> None:
    Ledger.create(tmp_path / "full.ledger", limit=1.20115).spend(Pure(epsilon=1.20115), what="a count")
    ((shown,), _) = Folder(tmp_path).summaries()
    assert (shown["spent"], shown["limit"]) == ("1.202", "1.202")


def test_ledger_page_shows_the_unit_and_cap(tmp_path: Path) -> None:
    Ledger.create(tmp_path / "p.ledger", limit=2.0, unit="patient", cap=3).spend(Pure(epsilon=0.5), what="a count")
    ((shown,), _) = Folder(tmp_path).summaries()
    assert shown["unit"] == "patient (cap 3)"
    with served(tmp_path) as page:
        text = page.ask(f"/{TOKEN}/ledger/p.ledger")[1]
    assert "unit patient (cap 3)</p>" in text
    assert '<td data-label="unit">patient (cap 3)</td>' in text


def test_losing_candidates_of_private_selection_are_hidden(tmp_path: Path) -> None:
    entries = card_entries() | {"search": {"point": {"lr": 1.0}, "workflow": "aware"}}
    selected = Selected(event=Gaussian(noise=9.0), distribution="logarithmic", mean=8.0)
    entries["events"] = [{"what": "search", "event": to_json(selected), "epsilon": 1.0}]
    (tmp_path / "model.json").write_text(json.dumps(entries))
    assert "are hidden: the epsilon is for the release of the best alone" in model_summary(tmp_path)["search"]


@pytest.mark.parametrize(
    ("what", "words"),
    [("search with tpe", "The cost of the search is part of epsilon"), ("train linear", "no privacy cost")],
)
def test_summary_says_whether_a_search_was_charged(tmp_path: Path, what: str, words: str) -> None:
    entries = card_entries() | {"search": {"point": {"lr": 1.0}, "workflow": "aware"}}
    entries["events"] = [{"what": what, "event": to_json(8 * Gaussian(noise=9.0)), "epsilon": 1.0}]
    (tmp_path / "model.json").write_text(json.dumps(entries))
    assert words in model_summary(tmp_path)["search"]


def test_list_of_models_shows_times_as_the_ledger_does(page: Served) -> None:
    assert re.search(r", 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC</p>", page.ask(f"/{TOKEN}/")[1])


def test_every_page_leaves_the_folder_as_it_is(page: Served, folder: Path) -> None:
    before = contents(folder)
    assert " of 3 spent at delta 1e-5" in page.ask(f"/{TOKEN}/ledger/people.csv.ledger")[1]
    assert "What an attacker can do" in page.ask(f"/{TOKEN}/report/model")[1]
    plan = page.ask(f"/{TOKEN}/plan", form={"data": "people.csv", "target": "y", "epsilon": "0.5", "learner": "linear"})
    assert plan[0] == 200
    assert re.search(r"epsilon 0\.(5|49\d\d), delta 1e-5", plan[1])
    verdict = page.ask(f"/{TOKEN}/model/model", form={"ledger": "people.csv.ledger"})[1]
    assert "these are the files that were released" in verdict
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("path", "form", "problem"),
    [
        ("plan", {"data": "../secret.csv"}, "expected a data file of the folder"),
        ("plan", {"data": "wisconsin", "epsilon": "much"}, "expected epsilon as a number"),
        ("plan", {"data": "wisconsin", "epsilon": "-1"}, "epsilon"),
        ("model/model", {"ledger": "/etc/passwd"}, "expected a ledger of the folder"),
    ],
)
def test_wrong_form_is_one_sentence(page: Served, path: str, form: dict[str, str], problem: str) -> None:
    status, text, _ = page.ask(f"/{TOKEN}/{path}", form=form)
    assert status == 400
    assert problem in text


@pytest.fixture
def linked(folder: Path, tmp_path: Path) -> Iterator[Served]:
    """A page over a folder whose links lead to rows, a ledger and a model that lie outside of it."""
    inside = tmp_path / "inside"
    (inside / "half").mkdir(parents=True)
    for name in ("people.csv", "people.csv.ledger", "model"):
        (inside / f"out-{name}").symlink_to(folder / name)
    for name in ("model.json", "model.safetensors", "report.html"):
        (inside / "half" / name).symlink_to(folder / "model" / name)
    (inside / "up").symlink_to("..")
    (inside / "circle").symlink_to("circle")
    (inside / "wisconsin").symlink_to(folder)
    (inside / "own.csv").write_text("a,y\n1,no\n2,yes\n")
    (inside / "again.csv").symlink_to("own.csv")
    with served(inside) as opened:
        yield opened


@pytest.mark.parametrize(
    "path",
    [
        "ledger/out-people.csv.ledger",
        "model/out-model",
        "model/half",
        "report/half",
        "report/out-model",
        "model/up/inside/half",
    ],
)
def test_p53_link_out_of_the_folder_shows_nothing(linked: Served, path: str) -> None:
    status, text, _ = linked.ask(f"/{TOKEN}/{path}")
    assert status == 400
    assert "expected the name of something in this folder" in text
    home = linked.ask(f"/{TOKEN}/")[1]
    assert "No ledger here yet" in home
    assert "No model here yet" in home


def test_p53_plan_takes_no_rows_from_outside(linked: Served) -> None:
    choices = linked.ask(f"/{TOKEN}/plan")[1]
    assert "own.csv" in choices
    assert "again.csv" in choices
    assert "out-people.csv" not in choices
    wrong = linked.ask(f"/{TOKEN}/plan", form={"data": "out-people.csv", "target": "y"})
    assert (wrong[0], "expected a data file of the folder" in wrong[1]) == (400, True)
    built_in = linked.ask(f"/{TOKEN}/plan", form={"data": "wisconsin", "epsilon": "1", "learner": "majority"})
    assert built_in[0] == 200


@pytest.mark.parametrize("path", ["", "ledger/people.csv.ledger", "model/model", "report/model", "plan"])
def test_p53_vanished_folder_is_one_sentence(tmp_path: Path, path: str, capfd: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "gone"
    place.mkdir()
    with served(place) as opened:
        place.rmdir()
        status, text, _ = opened.ask(f"/{TOKEN}/{path}")
    assert status == 400
    assert "it is gone or cannot be read" in text
    assert str(tmp_path) not in text
    assert "Traceback" not in capfd.readouterr().err


def test_model_that_vanishes_while_it_is_read_is_one_sentence(page: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def vanished(*_: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", "/secret/place")

    monkeypatch.setattr("privaware.ui._pages.ModelCard.read", vanished)
    status, text, _ = page.ask(f"/{TOKEN}/report/model")
    assert (status, "cannot read a file of this folder" in text, "/secret" in text) == (400, True, False)


def test_folder_inside_that_cannot_be_listed_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "own.csv").write_text("a,y\n1,no\n")
    listed = Path.iterdir

    def refused(self: Path) -> Iterator[Path]:
        if self.name == "closed":
            raise PermissionError(13, "Permission denied")
        return listed(self)

    monkeypatch.setattr(Path, "iterdir", refused)
    assert list(Folder(tmp_path).data_files()) == ["own.csv"]


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with chromium() as opened:
        yield opened


@needs_chromium
@pytest.mark.parametrize("width", [390, 800, 1280])
def test_pages_work_in_a_browser(tab: Tab, page: Served, folder: Path, width: int) -> None:
    tab.show(page.address, width=width, dark=width == 800)
    links = {
        "a[href='ledger/people.csv.ledger']": "people.csv.ledger",
        "nav a": folder.name,
        "a[href='model/model']": "model",
    }
    for link, title in links.items():
        assert tab.run(CUT) == []
        tab.run(f"document.querySelector({link!r}).click()")
        tab.wait(f"document.readyState === 'complete' && document.querySelector('h1').textContent === {title!r}")
    tab.run("document.querySelector('select').value = 'people.csv.ledger'; document.querySelector('button').click()")
    tab.wait("document.querySelector('#verdict .lead')")
    assert tab.run("document.querySelector('#verdict .lead').textContent") == "valid"
    assert tab.run(CUT) == []
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.problems == []
    assert {address.split("/")[2] for address in tab.requests if address.startswith("http")} == {
        f"127.0.0.1:{page.port}"
    }


@needs_chromium
def test_plan_in_a_browser_shows_the_price(tab: Tab, page: Served) -> None:
    tab.show(f"{page.address}plan")
    tab.run("document.querySelector('[name=data]').value = 'wisconsin'")
    tab.run("document.querySelector('[name=epsilon]').value = '2'; document.querySelector('button').click()")
    tab.wait("document.querySelector('#planned .lead')")
    assert "epsilon 2" in tab.run("document.querySelector('#planned').textContent")
    assert tab.problems == []


def test_command_serves_at_its_address_until_interrupted(folder: Path) -> None:
    words = [sys.executable, "-c", "from privaware.cli import main; main()", "ui", str(folder), "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address = json.loads(process.stdout.readline())["address"]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert "people.csv.ledger" in answer.read().decode()
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the page resumes it" in said
    assert "charged nothing" not in said


def test_server_closes_no_log_handler_of_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler, closed = logging.StreamHandler(), list[str]()
    monkeypatch.setattr(handler, "close", lambda: closed.append("closed"))
    with served(tmp_path):
        assert closed == []


def test_missing_folder_and_taken_port_are_refused(page: Served, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match="expected a folder"):
        serve(tmp_path / "nowhere", started=print)
    with pytest.raises(WrongInput, match="cannot listen at port"):
        serve(folder, port=page.port, started=print)
    with pytest.raises(WrongInput, match="cannot listen at port"):
        serve(folder, port=99_999, started=print)
