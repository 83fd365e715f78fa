"""No value of a row leaves: not in a refusal, not in JSON, not in the ledger, not in a released folder."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.people import CallResult, Run, contents, write_people
from tests.data.canaries import NUMBER, WORD, leaks, planted
from tests.data.hostile import Case

MAIN = [sys.executable, "-c", "from privaware.cli import main; main()"]
GIVEN = "anges and categories were read from the rows without noise"


def leak(run: Run, case: Case, folder: Path, verb: str) -> str:
    """Where a refused call shows a planted value; nothing when it does not."""
    folder.mkdir()
    data = case.write(folder)
    inputs = contents(folder)
    words = [*case.arguments(folder), "--ledger", folder / "book.ledger", "--out", folder / "n", "--json"]
    if verb == "schema":
        words = ["--target", case.target, "--out", folder / "draft.toml", "--json"]
    result = run(verb, data, *words)
    if verb != "schema" and result.code != 2:
        return f"exit {result.code}: {result.err!s:.200}"
    written = [content for name, content in contents(folder).items() if name not in inputs]
    if verb == "schema" and result.code == 0:
        written = []  # a draft shows categories and classes to the owner who asked for it
        result = CallResult(0, "", result.err)
    shown = [result.out, result.err, *(content.decode("utf-8", "replace") for content in written)]
    return next((text for text in shown if leaks(text)), "")


def all_kept(run: Run, tmp_path: Path, seed: int, count: int, verb: str) -> None:
    leaked = [
        f"{seed}/{at} {case.kind}: {text}"
        for at, case in enumerate(planted(seed, count))
        if (text := leak(run, case, tmp_path / f"case {at}", verb))
    ]
    assert not leaked, "\n".join(leaked)


@pytest.mark.parametrize(("verb", "count"), [("fit", 100), ("select", 40), ("schema", 40)])
def test_p46_bad_files_show_no_value_of_a_row(run: Run, tmp_path: Path, verb: str, count: int) -> None:
    all_kept(run, tmp_path, seed=30, count=count, verb=verb)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["select", "schema"])
def test_p46_more_bad_files_show_no_value_of_a_row(run: Run, tmp_path: Path, verb: str) -> None:
    all_kept(run, tmp_path, seed=30, count=200, verb=verb)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(31, 51))
def test_p46_two_thousand_bad_files_show_no_value_of_a_row(run: Run, tmp_path: Path, seed: int) -> None:
    all_kept(run, tmp_path, seed, count=100, verb="fit")


def test_p46_rows_to_predict_and_to_score_are_not_quoted(run: Run, model: Path, people: Path) -> None:
    for row in (f"{WORD},n,yes", f"30,{WORD},yes", f"30,n,{WORD}", f"{NUMBER},n", f'30,"{WORD}'):
        Path("new.csv").write_text(f"age,town,y\n{row}\n")
        calls = [("fit", people, "--schema", "people.toml", "--test", "new.csv", "--limit", 9, "--out", "n")]
        calls += [("predict", model, "new.csv", "--out", "p.csv")] if "yes" in row else []
        for call in calls:
            result = run(*call, "--json")
            assert result.code == 2, call
            assert not leaks(result.out + result.err), result.err


def test_p46_values_are_shown_at_a_terminal_when_the_owner_asks(run: Run, people: Path) -> None:
    people.write_text(f"age,town,y\n{WORD},n,yes\n")
    words = ["fit", str(people), "--schema", "people.toml", "--out", "m"]
    hidden = run(*words).err
    assert WORD not in hidden
    assert hidden.endswith("(--show-values at your terminal shows the value or folder that is left out here)\n")
    elsewhere = run(*words, "--show-values")  # standard error is no terminal here
    assert (elsewhere.code, WORD in elsewhere.err) == (2, False)
    assert "terminal" in elsewhere.err
    ours, theirs = pty.openpty()
    call = subprocess.run([*MAIN, *words, "--show-values"], stderr=theirs, stdout=subprocess.PIPE, check=False)
    shown = os.read(ours, 4096).decode()
    recorded = subprocess.run([*MAIN, *words, "--show-values", "--json"], stderr=theirs, stdout=-1, check=False)
    os.close(theirs)
    os.close(ours)
    assert (call.returncode, call.stdout) == (2, b"")
    assert f"expected a number, got '{WORD}'" in " ".join(shown.split())
    assert recorded.returncode == 2
    assert not leaks(recorded.stdout.decode())


def write_extremes(path: Path) -> Path:
    """People whose oldest and youngest are canaries."""
    draw = np.random.default_rng(3)
    ages = [float(f"17.{NUMBER}"), *draw.uniform(20, 70, 298), float(f"8{NUMBER[0]}.{NUMBER}")]
    rows = [f"{float(age)!r},{'nes'[at % 3]},{'yes' if age > 45 else 'no'}" for at, age in enumerate(ages)]
    path.write_text("\n".join(["age,town,y", *rows, ""]))
    return path


def test_p47_extremes_of_drafted_column_appear_in_no_output(run: Run, tmp_path: Path) -> None:
    data = write_extremes(tmp_path / "data.csv")
    result = run("fit", data, "--target", "y", "--accept-schema", "--out", "m", "--json")
    assert result.code == 0
    assert not leaks(result.out + result.err)
    for name, content in {**contents(Path("m")), "ledger": Path("data.csv.ledger").read_bytes()}.items():
        assert NUMBER.encode() not in content, name
    schema = json.loads(Path("m/model.json").read_text())["schema"]
    assert [(column["low"], column["high"]) for column in schema["columns"][:1]] == [(10.0, 100.0)]


def test_p47_accepted_draft_is_certified_only_after_review(run: Run, people: Path) -> None:
    result = run("fit", people, "--target", "y", "--accept-schema", "--limit", 9, "--out", "m")
    assert GIVEN in result.out
    assert '[columns."age"]' in result.err
    assert "drafted from the rows and moved outward" in result.err
    guarantee = json.loads(Path("m/model.json").read_text())["guarantee"]
    assert guarantee["certified"] is False
    assert GIVEN in guarantee["sentence"]
    assert GIVEN in Path("m/report.html").read_text()
    verdict = run("verify", "m", "--ledger", "people.csv.ledger", "--json")
    assert (verdict.code, verdict.json["valid"], verdict.json["certified"]) == (0, True, False)

    assert run("schema", people, "--target", "y", "--out", "draft.toml").code == 0
    call = ("fit", people, "--schema", "draft.toml", "--out")
    assert run(*call, "n", "--json").json["certified"] is False
    draft = Path("draft.toml")
    draft.write_text(draft.read_text().replace("reviewed = false", "reviewed = true"))
    reviewed = run(*call, "o", "--json")
    assert reviewed.json["certified"] is True
    assert GIVEN not in Path("o/model.json").read_text()


def test_p47_without_schema_bounds_and_categories_are_paid_for(run: Run, people: Path, tmp_path: Path) -> None:
    call = ("fit", people, "--target", "y", "--epsilon", 4, "--learner", "linear")
    result = run(*call, "--out", "m", "--json").json
    facts = json.loads(Path("m/model.json").read_text())
    assert [part["what"] for part in facts["events"]] == ["release bounds", "train linear"]
    assert (result["certified"], facts["guarantee"]["certified"]) == (True, True)
    assert GIVEN not in facts["guarantee"]["sentence"]
    public = "public: the names of the columns, and their kinds where these were not paid for"
    assert public in facts["guarantee"]["assumptions"]
    other = write_people(tmp_path / "other.csv")
    planned = run("fit", other, *call[2:], "--private-schema", "--dry-run", "--json").json
    assert planned["plan"] == result["plan"]


def test_p47_draft_without_bounds_is_taken_as_it_is(run: Run) -> None:
    np.savez("images.npz", x=np.zeros((40, 4, 4), dtype=np.uint8), y=np.arange(40) % 2)
    result = run("fit", "images.npz", "--accept-schema", "--epsilon", 8, "--out", "m", "--json").json
    assert result["certified"] is True


def test_first_line_that_is_a_row_is_never_shown(run: Run, tmp_path: Path) -> None:
    rows = [f"{NUMBER}{at % 50},{WORD}{at % 2},{'yes' if at % 3 else 'no'}" for at in range(100)]
    (tmp_path / "data.csv").write_text("\n".join(rows) + "\n")
    refused = run("fit", "data.csv", "--target", "y", "--json")
    assert refused.code == 2
    assert "--no-header" in refused.json["error"]
    assert not leaks(refused.out + refused.err)
    words = ("--target", "column_3", "--learner", "majority", "--no-header")
    assert run("fit", "data.csv", *words, "--out", "m", "--json").code == 0
    folder = b"".join(contents(tmp_path / "m").values()).decode("utf-8", "replace")
    assert not leaks(folder)
    predicted = run("predict", "m", "data.csv", "--no-header", "--json")
    assert predicted.json["rows"] == 100
