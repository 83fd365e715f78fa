"""A sentence on a page names the fields of its form, not the options of the command line."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from privaware.ui._labels import LABELS, with_labels
from privaware.ui._tasks import AUDIT_FIELDS, FIT_FIELDS, PREDICT_FIELDS, READING_FIELDS
from tests.ui.server import TOKEN, Served, served


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("pass --unit 'PatNr' and a new --ledger FILE", "pass “Unit” 'PatNr' and a new “Ledger”"),
        ("take a larger --limit, or none", "take a larger “Limit”, or none"),
        ("Declare kinds with --kinds FILE.", "Declare kinds with the command-line option --kinds FILE."),
        ("A search (`--search rs`) would", "A search (the command-line option `--search rs`) would"),
        ("type `privaware ledger a --close 1`", "type `privaware ledger a --close 1`"),
        ("got '--unit' in a--limit.csv", "got '--unit' in a--limit.csv"),
    ],
)
def test_option_becomes_the_label_of_its_field(sentence: str, shown: str) -> None:
    assert with_labels(sentence, "fit") == shown


def test_option_is_the_field_of_the_form_that_was_sent() -> None:
    assert with_labels("take a .parquet file for --out", "predict") == (
        "take a .parquet file for “Format of the predictions”"
    )
    assert with_labels("give --schema", "audit") == "give the command-line option --schema"


@pytest.mark.parametrize(
    ("verb", "path", "fields"),
    [
        ("fit", "plan", FIT_FIELDS.keys() - {"settings"} | {"set", "out", "no-header"}),
        ("predict", "predict", READING_FIELDS.keys() | PREDICT_FIELDS.keys() | {"out", "no-header"}),
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
    assert "name the “Encoding”, such as latin-1" in text


def test_run_names_the_field_and_shows_its_command(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("a,y\n1,no\n2,yes\n")
    command = [sys.executable, "-c", "import sys; sys.exit('privaware: choose another --out')"]
    with served(tmp_path, command) as opened:
        opened.ask(f"/{TOKEN}/fit", form={"data": "own.csv", "target": "y", "out": "m"})
        text = opened.until("run/fit/m", "failed")
    assert text.count("choose another “Name of the model folder”") == 2
    assert "--target=y --out=m" in text
