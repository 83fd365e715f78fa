"""`privaware ledger`, and what a ledger refuses to the other verbs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privaware._rounded import rounded_up
from privaware.accounting import epsilon
from privaware.events import Gaussian, Pure
from privaware.ledger import Ledger
from tests.cli.people import Run, watched


def test_spending_past_the_limit_is_refused_before_data_are_read(run: Run, people: Path, tmp_path: Path) -> None:
    call = ("--schema", "people.toml", "--learner", "majority", "--ledger", "one.ledger")
    assert run("fit", people, *call, "--out", "m").code == 0
    with watched(tmp_path / "pipe.csv") as reads:
        result = run("fit", "pipe.csv", *call, "--out", "n", "--json")
    assert reads == []
    assert result.code == 3
    assert len(result.err.splitlines()) == 1
    assert "--set-limit" in result.json["error"]
    assert not Path("n").exists()


def test_raised_limit_admits_the_next_run(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority")
    assert run(*call, "--out", "m").code == 0  # people.csv.ledger, with the limit 1
    assert run(*call, "--out", "n").code == 3
    changed = run("ledger", "people.csv.ledger", "--set-limit", 2.5, "--json").json
    assert (changed["limit"], len(changed["events"])) == (2.5, 1)
    assert run(*call, "--out", "n").code == 0
    ledger_facts = run("ledger", "people.csv.ledger", "--json").json
    assert 1.9 < ledger_facts["epsilon_spent"] <= ledger_facts["limit"]
    assert {"epsilon_spent", "delta", "limit", "events"} <= set(ledger_facts)
    assert run("ledger", "people.csv.ledger", "--set-limit", 0.5).code == 2
    lines = run("ledger", "people.csv.ledger").out.splitlines()
    assert len([line for line in lines if "fit people.csv" in line]) == 2
    assert "Remaining: epsilon 0.5" in lines[-1]


def test_refusal_names_what_still_fits_and_the_command_that_does(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "linear")
    assert run(*call, "--limit", 1.5, "--epsilon", 1, "--out", "m").code == 0
    refused = run(*call, "--epsilon=1.4", "--out", "n")
    assert refused.code == 3
    assert len(refused.err.splitlines()) == 1
    fitting, raising = refused.err.split("`")[1::2][-2:]
    assert "--epsilon=1.4" not in fitting
    words = shlex.split(fitting)
    fits = float(words[words.index("--epsilon") + 1])
    assert 0.5 < fits < 1.4  # more than what subtraction leaves
    assert run(*call, "--epsilon", 1.02 * fits, "--out", "n").code == 3
    assert run(*words[1:]).code == 0
    assert run(*shlex.split(raising)[1:]).code == 0
    assert run(*call, "--epsilon", 0.01, "--out", "o").code == 0


def test_the_command_that_fits_keeps_options_before_two_dashes(run: Run, people: Path) -> None:
    options = ("--schema", "people.toml", "--learner", "linear", "--limit", 1.5)
    assert run("fit", people, *options, "--epsilon", 1, "--out", "m").code == 0
    refused = run("fit", *options, "--epsilon", 1.4, "--out", "n", "--", people)
    assert refused.code == 3
    fitting = shlex.split(refused.err.split("`")[1::2][-2:][0])
    assert fitting[-4:-1] == ["--epsilon", fitting[-3], "--"]
    assert run(*fitting[1:]).code == 0


def test_charges_that_compose_are_explained(run: Run, people: Path) -> None:
    ledger = Ledger.create("book.ledger", limit=9.0)
    for _ in range(2):
        ledger.spend(Gaussian(noise=4.0), what="a sum")
    lines = run("ledger", "book.ledger").out
    assert f"The charges add up to epsilon {rounded_up(2 * epsilon(Gaussian(noise=4.0), 1e-5))}," in lines
    assert f"their composition costs only {rounded_up(ledger.spent())}" in lines


def test_every_charge_shows_its_unit_and_cap(run: Run) -> None:
    Ledger.create("persons.ledger", limit=2.0, unit="patient", cap=3).spend(Pure(epsilon=0.5), what="a count")
    first, heading, _, charge, *_ = run("ledger", "persons.ledger").out.splitlines()
    assert first.endswith("Protected: adding or removing one patient (cap 3).")
    assert charge[heading.index("unit") :].startswith("patient (cap 3)  0.5")
    facts = run("ledger", "persons.ledger", "--json").json
    assert [(event["unit"], event["cap"]) for event in facts["events"]] == [("patient", 3)]
    assert "cap=3" in repr(Ledger.open("persons.ledger"))


def test_limit_that_is_spent_is_not_printed_as_exceeded(run: Run, people: Path) -> None:
    Ledger.create("book.ledger", limit=1.20115).spend(Pure(epsilon=1.20115), what="a count")
    first, *table = run("ledger", "book.ledger").out.splitlines()
    assert first.startswith("Spent: epsilon 1.202 of 1.202 at delta 1e-5")
    assert "1.20115" not in "".join(table)


@pytest.mark.parametrize("broken", ["30,n,maybe", "30,n"], ids=["undeclared class", "short line"])
def test_failed_run_does_not_fix_the_limit_of_a_ledger(run: Run, people: Path, broken: str) -> None:
    good = people.read_text()
    people.write_text(good + broken + "\n")
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--out", "m")
    assert run(*call, "--epsilon", 5).code == 2
    assert not Path("people.csv.ledger").exists()
    people.write_text(good)
    assert run(*call, "--epsilon", 1).code == 0
    assert run("ledger", "people.csv.ledger", "--json").json["limit"] == 1.0


SPENT = "fit people.csv --schema people.toml --learner linear --out n"


@pytest.mark.parametrize(
    "words",
    ["fit nothing.csv", "fit wisconsin --learner lineer", "fit wisconsin --epsilom 1", "verify nowhere", SPENT],
    ids=["missing file", "unknown learner", "unknown option", "missing model", "spent ledger"],
)
def test_what_needs_no_torch_is_refused_without_it(run: Run, people: Path, words: str) -> None:
    if words == SPENT:
        Ledger.create("people.csv.ledger", limit=1.0).spend(Pure(epsilon=1.0), what="a count", run="a")
        Ledger.open("people.csv.ledger").finish("a")
    code = (
        f"import sys; from privaware.cli import main; code = main({words.split()!r});"
        "print(code, [m for m in ('torch', 'pandas', 'sklearn') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == f"{3 if words == SPENT else 2} []"
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("extra", [["--delta", "1e-6"], ["--limit", "7"], ["--unit", "label"]], ids=" ".join)
def test_a_ledger_keeps_its_limit_delta_and_unit(run: Run, people: Path, extra: list[str]) -> None:
    call = ("fit", people, "--target", "y", "--accept-schema", "--learner", "majority", "--epsilon", 0.1)
    assert run(*call, "--limit", 5, "--out", "m").code == 0
    before = Path("people.csv.ledger").read_bytes()
    result = run(*call, *extra, "--out", "n")
    assert (result.code, len(result.err.splitlines())) == (2, 1)
    assert Path("people.csv.ledger").read_bytes() == before
    assert run(*call, "--out", "n").code == 0  # without saying anything new


def test_name_of_the_data_is_answered_with_its_ledger(run: Run, people: Path) -> None:
    Ledger.create("people.csv.ledger", limit=1.0)
    result = run("ledger", people)
    assert result.code == 2
    assert "type `privaware ledger " in result.err
    assert "people.csv.ledger`" in result.err
    assert run("ledger", "people.csv.ledger").code == 0


def test_table_that_resembles_another_asks_with_exit_2(run: Run, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.normal(size=(300, 4)), columns=list("abcd")).assign(y=["no", "yes"] * 150)
    frame.to_csv("first.csv", index=False)
    frame.drop(columns="a").to_csv("second.csv", index=False)
    call = ("--target", "y", "--learner", "majority", "--json")
    assert run("fit", "first.csv", *call, "--out", "m").code == 0
    verbs = (("fit", *call, "--out", "n"), ("select", *call[:2]), ("audit", *call[:2], "--learner", "linear"))
    for verb, *options in verbs:
        asked = run(verb, "second.csv", *options)
        assert asked.code == 2
        assert len(asked.err.splitlines()) == 1
        assert "first.csv.ledger to charge them there, or --new-ledger" in asked.out + asked.err
    assert not Path("second.csv.ledger").exists()
    assert run("fit", "second.csv", *call, "--out", "n", "--new-ledger").code == 0
    assert run("fit", "second.csv", *call, "--out", "n", "--new-ledger").code == 0  # the same command: nothing to do


def test_restored_copy_of_a_ledger_keeps_what_was_spent(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--limit", 3)
    assert run(*call, "--out", "m").code == 0
    older = Path("people.csv.ledger").read_bytes()
    assert run(*call, "--out", "n").code == 0
    spent = run("ledger", "people.csv.ledger", "--json").json["epsilon_spent"]
    Path("people.csv.ledger").write_bytes(older)
    refused = run(*call, "--out", "o")
    assert refused.code == 2
    assert "lacks 2 entries that it had before" in refused.err
    assert run("ledger", "people.csv.ledger").code == 2
    assert "Restored 2 entries." in run("ledger", "people.csv.ledger", "--restore").out
    assert run("ledger", "people.csv.ledger", "--json").json["epsilon_spent"] == pytest.approx(spent)


@pytest.fixture
def book(run: Run) -> Ledger:
    """A ledger with a finished run, a changed limit and an unfinished run."""
    ledger = Ledger.create("book.ledger", limit=1.0, who="ann")
    ledger.spend(Gaussian(noise=6.0), what="a sum", run="one", who="ann")
    ledger.finish("one", who="ann")
    ledger.set_limit(2.5, who="bob")
    ledger.spend(Gaussian(noise=6.0), what="another sum", run="two", who="ann")
    return ledger


def test_each_charge_has_the_composed_total_up_to_it(run: Run, book: Ledger) -> None:
    totals = [epsilon(count * Gaussian(noise=6.0), 1e-5) for count in (1, 2)]
    facts = run("ledger", book.path, "--json").json
    assert [event["total"] for event in facts["events"]] == pytest.approx(totals)
    lines = run("ledger", book.path).out.splitlines()
    (head,) = [line for line in lines if line.startswith("entry")]
    assert head.split() == ["entry", "time", "(UTC)", "who", "unit", "epsilon", "total", "limit", "what"]
    (second,) = [line for line in lines if line.startswith("    4 ")]
    assert second.split()[3:8] == ["ann", "row", rounded_up(totals[0]), rounded_up(totals[1]), "2.5"]


def test_limit_changes_stand_in_the_table_with_author_and_time(run: Run, book: Ledger) -> None:
    (change,) = run("ledger", book.path, "--json").json["limits"]
    assert (change["limit"], change["limit_before"], change["who"]) == (2.5, 1.0, "bob")
    (line,) = [line for line in run("ledger", book.path).out.splitlines() if "limit changed from 1 to 2.5" in line]
    assert line.split()[:4] == ["3", *change["time"][:19].split("T"), "bob"]


def test_every_entry_is_in_the_table_with_its_number(run: Run, book: Ledger) -> None:
    closed = run("ledger", book.path, "--close", 4)
    assert closed.code == 0
    assert "Entry 4 is closed without a result. Its epsilon stays spent" in closed.out.splitlines()[-1]
    book.record_audit("one", files={"audit.json": "0" * 64}, what="audit", who="bob")
    shown = run("ledger", book.path).out.splitlines()
    table = shown[shown.index(next(line for line in shown if line.startswith("entry"))) + 1 :][:7]
    assert [line.split()[0] for line in table] == [str(entry.number) for entry in book.entries()]
    assert table[2].endswith("entry 1 finished")
    assert table[5].endswith("entry 4 closed without a result")
    closings = run("ledger", book.path, "--json").json["closings"]
    assert [(each["number"], each["of"], each["run"]) for each in closings] == [(2, 1, "one"), (5, 4, "two")]


def test_unfinished_runs_are_listed_with_ways_to_end_them(run: Run, book: Ledger) -> None:
    (unfinished,) = run("ledger", book.path, "--json").json["open"]
    assert (unfinished["number"], unfinished["run"], unfinished["what"]) == (4, "two", "another sum")
    shown = run("ledger", book.path).out
    assert "Entry 4 (another sum) is charged but not finished" in shown
    assert "repeat its command" in shown
    assert f"`privaware ledger {book.path} --close 4`" in shown


def test_closed_run_stays_spent_and_is_not_open(run: Run, book: Ledger) -> None:
    spent = book.spent()
    closed = run("ledger", book.path, "--close", 4, "--json")
    assert closed.code == 0
    assert closed.json["open"] == []
    assert closed.json["epsilon_spent"] == pytest.approx(spent)
    assert "not finished" not in run("ledger", book.path).out
    for number in (1, 3, 4, 9):
        refused = run("ledger", book.path, "--close", number)
        assert refused.code == 2
        assert f"expected the entry of an unfinished run, but every run has ended, got {number}" in refused.err


def test_ledgers_of_the_same_rows_are_shown_with_one_total(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority")
    for name in ("a", "b", "c"):
        assert run(*call, "--ledger", f"{name}.ledger", "--out", name).code == 0
    facts = run("ledger", "a.ledger", "--json").json
    assert [Path(other["path"]).name for other in facts["other_ledgers"]] == ["b.ledger", "c.ledger"]
    assert facts["epsilon_together"] == pytest.approx(3 * facts["epsilon_spent"], rel=0.01)  # Laplace noise adds up
    shown = run("ledger", "a.ledger").out
    assert f"all 3 ledgers together spend epsilon {rounded_up(facts['epsilon_together'])} at delta 1e-5" in shown


def test_limit_with_a_comma_says_how_it_is_written(run: Run, book: Ledger) -> None:
    refused = run("ledger", book.path, "--set-limit", "2,5")
    assert (refused.code, refused.err) == (2, "privaware: --set-limit: expected a number such as 2.5, got '2,5'\n")


def test_limit_that_stands_already_is_not_recorded(run: Run, book: Ledger) -> None:
    entries = book.entries()
    same = run("ledger", book.path, "--set-limit", book.limit)
    assert f"The limit is {book.limit:g} already, so nothing is recorded." in same.out.splitlines()
    assert book.entries() == entries


def test_new_ledger_beside_an_existing_one_is_said(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--limit", 9)
    assert "--new-ledger" not in run(*call, "--new-ledger", "--out", "m").err
    for extra in ((), ("--dry-run",)):
        again = run(*call, "--new-ledger", "--out", "n", *extra).err
        assert "--new-ledger has no effect, because the ledger '" in again
        assert "people.csv.ledger' exists: this run is charged there." in again
        assert run("ledger", "people.csv.ledger").code == 0
        for path in Path().glob("n/*"):
            path.unlink()


def test_refused_charge_names_the_command_for_the_limit(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority")
    assert run(*call, "--out", "m").code == 0
    refused = run(*call, "--epsilon", 5, "--out", "n").err
    assert re.search(r"raise the limit; type `privaware ledger \S*people.csv.ledger --set-limit 6`", refused)
    assert refused.count("--set-limit") == 1
    planned = run(*call, "--epsilon", 5, "--dry-run", "--out", "n").err
    assert "raise the limit (`privaware ledger --set-limit`)" in planned


def test_limit_advised_for_a_full_ledger_is_enough(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority")
    assert run(*call, "--epsilon", 1.3, "--out", "m").code == 0
    refused = run(*call, "--epsilon", 0.0005, "--out", "n")
    assert refused.code == 3
    advised = re.search("privaware (ledger .* --set-limit .*)`", refused.err)
    assert advised is not None
    assert run(*shlex.split(advised[1])).code == 0
    assert run(*call, "--epsilon", 0.0005, "--out", "n").code == 0


def test_entries_for_different_data_have_different_marks(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--limit", 9)
    assert run(*call, "--out", "m").code == 0
    assert "(data " not in run("ledger", "people.csv.ledger").out
    people.write_text(people.read_text().replace("yes", "no", 1))
    assert run(*call, "--out", "o").code == 0
    lines = run("ledger", "people.csv.ledger").out.splitlines()
    marks = [line.rpartition(" (data ")[2] for line in lines if " (data " in line]
    assert len(set(marks)) == 2
    assert all(len(mark) == 9 for mark in marks)
