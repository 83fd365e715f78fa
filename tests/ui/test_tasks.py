"""A form becomes one call of the command line that stays inside the folder; a page names the fields of its form."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from privaware.errors import WrongInput
from privaware.ui._folder import Folder
from privaware.ui._tasks import (
    AUDIT_FIELDS,
    FIT_FIELDS,
    LABELS,
    PREDICT_FIELDS,
    audit_task,
    fit_options,
    fit_task,
    predict_task,
    with_labels,
)
from tests.ui.server import TOKEN, Served, served

FORM = {"data": "people.csv", "target": "y", "out": "new-model"}


@pytest.fixture
def place(folder: Path, tmp_path: Path) -> Folder:
    """A copy of the folder, which a test may change."""
    return Folder(Path(shutil.copytree(folder, tmp_path / "work")))


def test_fit_form_becomes_a_call(place: Folder) -> None:
    form = {**FORM, "epsilon": "0.5", "cap": "", "header": "yes", "settings": "steps=5 lr=0.1", "new_ledger": "yes"}
    task = fit_task(place, form)
    options = "--epsilon=0.5 --target=y --new-ledger --header --set=steps=5 --set=lr=0.1"
    assert task.command(place) == f"privaware fit {options} --out=new-model -- people.csv"
    assert fit_options(place, form)["settings"] == {"steps": 5, "lr": 0.1}


def test_columns_with_commas_between_become_several_words(place: Folder) -> None:
    task = fit_task(place, {**FORM, "not_persons": "telephone, PatNr", "check_persons": "yes", "score": "yes"})
    assert {"--not-persons=telephone", "--not-persons=PatNr", "--check-persons", "--score"} <= set(task.words)


def test_value_never_becomes_another_option(place: Folder) -> None:
    task = fit_task(place, {**FORM, "target": "--accept-schema", "settings": "a=--seed"})
    assert "--target=--accept-schema" in task.words
    assert "--set=a=--seed" in task.words
    assert task.words[-2] == "--"


@pytest.mark.parametrize(
    "name", ["", "..", "../x", "/etc/x", ".hidden", "a/b", "a\\b", "a\0b", "predictions", "x.ledger"]
)
def test_model_folder_outside_is_refused(place: Folder, name: str) -> None:
    with pytest.raises(WrongInput, match="expected a name for the model folder"):
        fit_task(place, {**FORM, "out": name})


def test_p53_links_that_lead_out_are_not_written_to(place: Folder, tmp_path: Path) -> None:
    (place.path / "new-model").symlink_to(tmp_path)
    (place.path / "predictions").symlink_to(tmp_path)
    (place.path / "people.csv.ledger").unlink()
    (place.path / "people.csv.ledger").symlink_to(tmp_path / "other.ledger")
    with pytest.raises(WrongInput, match="'new-model' inside this folder"):
        fit_task(place, FORM)
    with pytest.raises(WrongInput, match="expected the ledger of the data inside this folder"):
        fit_task(place, {**FORM, "out": "other"})
    with pytest.raises(WrongInput, match="'predictions' as a folder inside this folder"):
        predict_task(place, {"model": "model", "data": "people.csv"})


def test_file_named_like_built_in_data_is_refused(
    place: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line reads such a file, which need not lie in the folder."""
    monkeypatch.chdir(tmp_path)
    fit_task(place, {**FORM, "data": "wisconsin"})
    Path("wisconsin").symlink_to("/")
    with pytest.raises(WrongInput, match="rename the file"):
        fit_task(place, {**FORM, "data": "wisconsin"})


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("data", "../people.csv", "expected a data file of the folder"),
        ("test", "/etc/passwd", "expected a data file of the folder"),
        ("schema", "../people.toml", "expected a schema of the folder"),
        ("ledger", "/tmp/x.ledger", "expected a ledger of the folder"),
        ("limit", "much", "expected limit as a number, got 'much'"),
        ("cap", "1.5", "expected cap as a whole number"),
        ("settings", "steps", "expected settings as NAME=VALUE"),
        ("target", "a\0b", "expected target without a zero character"),
    ],
)
def test_wrong_field_is_one_sentence(place: Folder, field: str, value: str, problem: str) -> None:
    with pytest.raises(WrongInput, match=problem):
        fit_task(place, {**FORM, field: value})


def test_each_prediction_gets_a_new_file(place: Folder) -> None:
    form = {"model": "model", "data": "people.csv"}
    assert predict_task(place, form).out == "predictions/people.csv"
    (place.path / "predictions").mkdir()
    (place.path / "predictions" / "people.csv").write_text("prediction\n")
    assert predict_task(place, form).out == "predictions/people-2.csv"
    assert predict_task(place, {**form, "format": "parquet"}).out == "predictions/people.parquet"
    assert "--keep=id" in predict_task(place, {**form, "keep": "id, name"}).words
    assert list(place.predictions()) == ["predictions/people.csv"]
    assert list(place.data_files()) == ["people.csv"]


def test_audit_names_options_as_the_command_line_does(place: Folder) -> None:
    (place.path / "m").mkdir(exist_ok=True)
    (place.path / "m" / "model.json").write_text("{}")
    assert "--insert=input" in audit_task(place, "m", {"attack": "one_run", "insert": "input"}).words


def test_audit_takes_models_of_the_folder_only(place: Folder) -> None:
    task = audit_task(place, "model", {"attack": "many_run", "runs": "20", "canaries": "9", "ledger": ""})
    assert task.command(place) == "privaware audit --attack=many_run --runs=20 -- model"
    for name, form in (("../model", {}), ("model", {"attack": "lira"})):
        with pytest.raises(WrongInput, match=r"expected (a model of the folder|one_run or many_run)"):
            audit_task(place, name, form)


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("pass --unit 'PatNr' and a new --ledger FILE", "enter 'PatNr' under “Unit” and a new “Ledger”"),
        ("Pass --unit PatNr.", "Enter PatNr under “Unit”."),
        ("use it, pass --not-persons COLUMN.", "use it, enter the column under “Columns that identify nobody”."),
        ("another part (--score-epsilon E)", "another part (“Epsilon of the released score”)"),
        ("take a larger --limit, or none", "take a larger “Limit”, or none"),
        ("Declare kinds with --kinds FILE.", "Declare kinds with the command-line option --kinds FILE."),
        ("A search (`--search rs`) would", "A search (the command-line option `--search rs`) would"),
        ("type `privaware ledger a --close 1`", "type `privaware ledger a --close 1`"),
        ("got '--unit' in a--limit.csv", "got '--unit' in a--limit.csv"),
        ("change it with --set-limit", "change it with “New limit” on the page of the ledger"),
        ("raise the limit (`privaware ledger --set-limit`)", "raise the limit (“New limit” on the page of the ledger)"),
        (
            "type `privaware fit --epsilon 0.4 -- a.csv` or `privaware ledger a --set-limit 2`",
            "type “Epsilon” 0.4 or “New limit” 2 on the page of the ledger",
        ),
    ],
)
def test_option_becomes_the_label_of_its_field(sentence: str, shown: str) -> None:
    assert with_labels(sentence, "fit") == shown


def test_label_of_allow_unreadable_names_both_cases() -> None:
    shown = with_labels("predict without it by --allow-unreadable", "predict")
    assert "cannot be read" in shown
    assert "is empty" in shown


def test_option_is_the_field_of_the_form_that_was_sent() -> None:
    assert with_labels("take a .parquet file for --out", "predict") == (
        "take a .parquet file for “Format of the predictions”"
    )
    assert with_labels("give --schema", "audit") == "give the command-line option --schema"


@pytest.mark.parametrize(
    ("verb", "path", "fields"),
    [
        ("fit", "plan", FIT_FIELDS.keys() - {"settings"} | {"set", "out", "no-header"}),
        ("predict", "predict", PREDICT_FIELDS.keys() | {"out", "no-header"}),
        ("audit", "model/model", {"attack", "ledger"}.union(*AUDIT_FIELDS.values())),
    ],
)
def test_every_field_has_its_label_on_the_page(page: Served, verb: str, path: str, fields: set[str]) -> None:
    assert LABELS[verb].keys() == {name.replace("_", "-") for name in fields}
    text = re.sub(r"\s*<[^>]*>\s*", "|", page.ask(f"/{TOKEN}/{path}")[1])
    parts = [part for label in LABELS[verb].values() for part in label.split(": ")]
    assert [part for part in parts if f"|{part}" not in text] == []


def test_problem_of_a_plan_names_the_field(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_bytes("größe,y\n1,no\n2,yes\n".encode("latin-1"))
    with served(tmp_path) as opened:
        text = opened.ask(f"/{TOKEN}/plan", form={"data": "old.csv", "target": "y", "header": "yes"})[1]
    assert "name it with “Encoding”, such as latin-1" in text


def test_run_names_the_field_and_shows_its_command(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("a,y\n1,no\n2,yes\n")
    command = [sys.executable, "-c", "import sys; sys.exit('privaware: choose another --out')"]
    with served(tmp_path, command) as opened:
        opened.ask(f"/{TOKEN}/fit", form={"data": "own.csv", "target": "y", "out": "m"})
        text = opened.until("run/fit/m", "failed")
    assert text.count("choose another “Name of the model folder”") == 1
    assert "--target=y --out=m" in text
