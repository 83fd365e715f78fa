"""`privaware fit`: its result, kinds of data, schemas and dry runs; the folder gives nothing private away."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware.ledger import Ledger
from tests.cli.people import Run, contents, watched, write_people

FIELDS = {"metric", "score", "epsilon", "delta", "learner", "plan", "certified", "internal", "seconds", "out"}
FIELDS |= {"search", "workflow", "considered", "refusal"}


def spends(path: Path) -> list[Any]:
    return [entry for entry in Ledger.open(path).entries() if entry.kind == "spend"]


def test_json_has_all_fields_and_progress_goes_to_stderr(run: Run, people: Path) -> None:
    result = run("fit", people, "--target", "y", "--out", "m", "--json", "--verbose")
    assert result.code == 0
    fields = result.json
    assert set(fields) == FIELDS
    assert fields["epsilon"] <= 1.0
    assert fields["delta"] == 1e-5
    assert fields["learner"] == "fourier"
    assert fields["certified"] is True
    assert fields["internal"] == {"test_score": None}  # every row trained
    assert fields["out"] == "m"
    assert fields["seconds"] > 0
    assert all(words in result.err for words in fields["plan"])
    assert {item.name for item in Path("m").iterdir()} == {"model.json", "model.safetensors", "report.html"}


def test_text_output_states_guarantee_and_paths(run: Run, people: Path) -> None:
    result = run("fit", people, "--schema", "people.toml", "--learner", "majority", "--out", "m")
    assert result.out.startswith("Adding or removing any one row changes the probability")
    assert "Model folder: m" in result.out
    assert "Report: m/report.html" in result.out


def test_p32_scores_are_printed_and_never_written(run: Run, people: Path, tmp_path: Path) -> None:
    test = write_people(tmp_path / "test.csv", rows=211, seed=5)
    result = run("fit", people, "--schema", "people.toml", "--test", test, "--out", "m", "--json").json
    score = result["internal"]["test_score"]
    assert 0 < score < 1
    assert result["internal"]["constant_score"] > 0.4
    forms = {repr(score), f"{score:.4f}", f"{100 * score:.2f}", "test_score", "constant_score"}
    for name, content in contents(Path("m")).items():
        assert not [form for form in forms if form.encode() in content], name
        assert struct.pack("<d", score) not in content, name


def test_built_in_data_have_own_ledger_and_test_score(run: Run) -> None:
    result = run("fit", "wisconsin", "--out", "a/m", "--json").json
    assert result["internal"]["test_score"] > 0.8
    assert len(spends(Path("a/m/run.ledger"))) == 1
    assert run("fit", "wisconsin", "--learner", "majority", "--out", "a/n", "--json").code == 0
    assert run("verify", "a/m", "--ledger", "a/m/run.ledger").code == 0


def test_a_seed_is_recorded_charged_and_marks_the_result(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--seed", 7, "--limit", 9)
    result = run(*call, "--out", "m", "--json").json
    assert result["certified"] is False
    assert "SEEDED, NOT FOR RELEASE" in run(*call, "--out", "n").out
    facts = json.loads(Path("m/model.json").read_text())["guarantee"]
    assert (facts["seed"], facts["certified"]) == (7, False)
    assert "NOT FOR RELEASE" in Path("m/report.html").read_text().upper()
    assert [entry.seed for entry in spends(Path("people.csv.ledger"))] == [7, 7]
    same = [Path(name, "model.safetensors").read_bytes() for name in "mn"]
    assert same[0] == same[1]


def test_p26_without_a_seed_two_runs_differ(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--limit", 9, "--out")
    assert [run(*call, name).code for name in "mn"] == [0, 0]
    assert Path("m/model.safetensors").read_bytes() != Path("n/model.safetensors").read_bytes()


def test_regression_reports_the_error_in_the_targets_unit(run: Run, tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    age, smoker = draw.integers(18, 65, 1500), draw.choice(["no", "yes"], 1500)
    charges = 250.0 * age + 20000 * (smoker == "yes") + draw.normal(0, 1000, 1500)
    table = pd.DataFrame({"age": age, "smoker": smoker, "charges": charges})
    table[:1000].to_csv("train.csv", index=False)
    table[1000:].to_csv("test.csv", index=False)
    call = ("--target", "charges", "--task", "regression", "--test", "test.csv", "--epsilon", 8)
    result = run("fit", "train.csv", *call, "--accept-schema", "--out", "m", "--json").json
    assert result["internal"]["test_score"] > 0.5
    assert result["internal"]["mae"] < 6000
    assert run("predict", "m", "test.csv", "--out", "p.csv", "--json").json["rows"] == 500
    predicted = pd.read_csv("p.csv")
    assert list(predicted) == ["prediction"]
    assert np.corrcoef(predicted["prediction"], charges[1000:])[0, 1] > 0.7


def test_columns_of_unknown_test_values_are_named(run: Run) -> None:
    when = pd.date_range("2024-01-01", periods=1500, freq="D")
    use = np.random.default_rng(0).normal(20, 5, 1500)
    table = pd.DataFrame({"when": when, "heat": use, "use": use + 1})
    table[:1000].to_csv("train.csv", index=False)
    table[1000:].to_csv("later.csv", index=False)
    shown = run("fit", "train.csv", "--target", "use", "--epsilon", 8, "--test", "later.csv", "--out", "m").err
    assert re.search(
        r"Test rows, 'when': \d+ values outside the range that the model knows \(2\S+ to 2\S+\), clipped", shown
    )
    assert "Test rows, 'heat'" not in shown


@pytest.mark.parametrize("labels", [("<=50K", ">50K"), ("3", "7"), ("-1", "1"), ("é", "no ")])
def test_labels_are_spelt_as_in_the_data(run: Run, tmp_path: Path, labels: tuple[str, str]) -> None:
    draw = np.random.default_rng(2)
    x = draw.normal(size=600)
    table = pd.DataFrame({"x": x, "label": np.where(x > 0, labels[1], labels[0])})
    table.to_csv("data.csv", index=False)
    call = ("--target", "label", "--accept-schema", "--epsilon", 8)
    assert run("fit", "data.csv", *call, "--out", "m").code == 0
    table[["x"]].to_parquet("new.parquet")
    assert run("predict", "m", "new.parquet", "--out", "p.csv").code == 0
    predicted = pd.read_csv("p.csv", dtype=str)
    spelt = {label.strip() for label in labels}
    assert set(predicted["prediction"]) == spelt
    assert set(predicted) == {"prediction", *(f"probability_{label}" for label in spelt)}
    assert (predicted["prediction"] == table["label"].str.strip()).mean() > 0.9


def test_few_integers_are_classes_unless_task_is_regression(run: Run, tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    pd.DataFrame({"x": draw.normal(size=300), "grade": draw.integers(0, 4, 300)}).to_csv("d.csv", index=False)
    call = ("fit", "d.csv", "--target", "grade", "--accept-schema", "--epsilon", 0.1, "--dry-run", "--json")
    assert run(*call).json["learner"] == "majority"
    assert run(*call, "--task", "regression").json["learner"] == "mean"


def test_p34_rows_of_one_person_are_capped_and_charged_as_group(run: Run, tmp_path: Path) -> None:
    draw = np.random.default_rng(4)
    x = draw.normal(size=900)
    label = np.where(x > 0, "up", "down")
    pd.DataFrame({"who": np.arange(900) // 3, "x": x, "label": label}).to_csv("d.csv", index=False)
    call = ("fit", "d.csv", "--target", "label", "--accept-schema", "--unit", "who", "--epsilon", 2)
    result = run(*call, "--cap", 2, "--learner", "majority", "--out", "m", "--json").json
    assert result["epsilon"] <= 2
    facts = json.loads(Path("m/model.json").read_text())
    assert facts["guarantee"]["unit"] == "who"
    assert facts["events"][0]["event"]["kind"] == "Group"
    assert facts["events"][0]["event"]["size"] == 2
    assert "all rows of any one who" in facts["guarantee"]["sentence"]
    assert "who" not in [column["name"] for column in facts["schema"]["columns"]]
    other = run(*call, "--cap", 3, "--learner", "majority", "--out", "n")
    assert (other.code, len(spends(Path("d.csv.ledger")))) == (2, 1)  # one ledger, one unit


def test_only_labels_are_protected_when_asked_for(run: Run, people: Path) -> None:
    call = ("fit", people, "--target", "y", "--accept-schema", "--learner", "alibi", "--out", "m")
    assert run(*call).code == 2  # alibi does not protect rows
    assert run(*call, "--unit", "label", "--json").json["learner"] == "alibi"
    facts = json.loads(Path("m/model.json").read_text())["guarantee"]
    assert "the label of any one row" in facts["sentence"]
    assert any("only labels are protected" in words for words in facts["assumptions"])


def test_pate_requires_public_rows(run: Run, people: Path, tmp_path: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "pate", "--out", "m", "--epsilon", 4)
    assert "--public" in run(*call).err
    pool = write_people(tmp_path / "pool.csv", rows=250, seed=9)
    unlabelled = "\n".join(line.rsplit(",", 1)[0] for line in pool.read_text().splitlines())
    pool.write_text(unlabelled + "\n")
    assert run(*call, "--public", pool, "--set", "teachers=10", "--json").json["learner"] == "pate"
    assert "pool" not in Path("m/model.json").read_text()


@pytest.mark.parametrize("name", ["digits", "wisconsin"])
def test_built_in_data_bring_their_own_public_rows(run: Run, name: str) -> None:
    result = run("fit", name, "--learner", "pate", "--epsilon", 8, "--out", "m", "--json").json
    assert result["internal"]["test_score"] is not None


@pytest.mark.parametrize("learner", ["linear", "majority"])
@pytest.mark.parametrize("schema_option", ["--accept-schema", "--private-schema"])
def test_text_is_learnt_scored_and_predicted(run: Run, learner: str, schema_option: str) -> None:
    draw = np.random.default_rng(6)
    words = ["win", "cash", "hello", "friend", "tomorrow", "now", "free", "call", "dinner", "later"]
    text = [" ".join(draw.choice(words, 6)) for _ in range(400)]
    label = ["spam" if "win" in words else "ham" for words in text]
    pd.DataFrame({"text": text, "kind": label}).to_csv("d.csv", index=False)
    call = ("--target", "kind", schema_option, "--learner", learner, "--test", "d.csv", "--epsilon", 8)
    result = run("fit", "d.csv", *call, "--out", "m", "--json").json
    assert result["internal"]["test_score"] > (0.8 if learner == "linear" else 0.2)
    assert run("predict", "m", "d.csv", "--out", "p.csv", "--json").json["rows"] == 400
    assert run("verify", "m", "--ledger", "d.csv.ledger").code == 0


def test_private_schema_is_charged_and_can_be_scored(run: Run, people: Path, tmp_path: Path) -> None:
    test = write_people(tmp_path / "test.csv", rows=100, seed=5)
    call = ("--private-schema", "--epsilon", 4, "--learner", "linear", "--test", test)
    result = run("fit", people, "--target", "y", *call, "--out", "m", "--json").json
    assert result["internal"]["test_score"] is not None
    facts = json.loads(Path("m/model.json").read_text())
    assert [part["what"] for part in facts["events"]] == ["release bounds", "train linear"]
    assumed = " ".join(facts["guarantee"]["assumptions"])
    assert "range of age" not in assumed
    assert "categories of town" not in assumed
    assert run("verify", "m", "--ledger", "people.csv.ledger").code == 0


def test_constant_with_private_schema_is_not_charged_for_bounds(run: Run, people: Path) -> None:
    call = ("--target", "y", "--private-schema", "--learner", "majority", "--test", people)
    result = run("fit", people, *call, "--out", "m", "--json").json
    assert result["internal"]["test_score"] is not None
    assert len(json.loads(Path("m/model.json").read_text())["events"]) == 1
    assert run("predict", "m", people, "--out", "p.csv", "--json").json["rows"] == 300


@pytest.mark.parametrize(
    "extra",
    [["--accept-schema"], ["--target", "age"], ["--task", "regression"], ["--private-schema", "--accept-schema"]],
    ids=" ".join,
)
def test_a_call_that_contradicts_the_schema_is_refused(run: Run, people: Path, extra: list[str]) -> None:
    assert run("fit", people, "--schema", "people.toml", *extra, "--out", "m").code == 2
    assert not Path("people.csv.ledger").exists()


def test_a_dry_run_with_a_declared_schema_does_not_open_the_file(run: Run, people: Path, tmp_path: Path) -> None:
    with watched(tmp_path / "pipe.csv") as reads:
        result = run("fit", "pipe.csv", "--schema", "people.toml", "--dry-run", "--json")
    assert reads == []
    assert result.code == 0
    assert set(result.json) == FIELDS
    assert result.json["out"] is None
    assert not Path("pipe.csv.ledger").exists()
    assert not Path("pipe.csv-model").exists()


def test_watched_pipe_records_a_reader(run: Run, people: Path, tmp_path: Path) -> None:
    with watched(tmp_path / "pipe.csv") as reads:
        assert run("fit", "pipe.csv", "--schema", "people.toml", "--out", "m").code == 2
    assert reads


@pytest.mark.parametrize("learner", ["auto", "pate"])
def test_a_dry_run_needs_no_files_of_built_in_data(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learner: str
) -> None:
    monkeypatch.setenv("PRIVAWARE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = run("fit", "mnist", "--learner", learner, "--dry-run", "--json").json
    assert result["epsilon"] <= 1.0
    assert result["plan"]


def test_table_without_features_gets_a_constant(run: Run, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("y\n" + "yes\nno\n" * 50)
    words = ("fit", "one.csv", "--target", "y", "--accept-schema", "--epsilon", 2, "--json")
    assert run(*words, "--out", "model").json["learner"] == "majority"
    refused = run(*words, "--learner", "linear", "--ledger", "o.ledger", "--out", "other")
    assert refused.code == 2
    assert "column beside the target" in refused.err


def test_p50_notices_precede_the_charge_and_are_never_written(run, tmp_path):
    lines = [f"{at // 2},{20 + at % 50},2020-01-{1 + at % 28:02},{'yes' if at % 3 else 'no'}" for at in range(120)]
    (tmp_path / "visits.csv").write_text("\n".join(["patient_id,age,seen,y", *lines]) + "\n")
    result = run("fit", "visits.csv", "--target", "y", "--learner", "majority", "--out", "m", "--json")
    before, charged, _ = result.err.partition("Charged to the ledger")
    assert charged
    assert "Not used: 'patient_id' (by its name it identifies persons or cases)" in before
    assert "pass --unit 'patient_id'" in before
    written = b"".join(path.read_bytes() for path in (tmp_path / "m").iterdir()).decode("utf-8", "replace")
    for text in (result.out, written, (tmp_path / "visits.csv.ledger").read_bytes().decode("utf-8", "replace")):
        assert "--unit 'patient_id'" not in text
        assert "several rows" not in text
    assert "Not used: 'patient_id' (by its name it identifies persons or cases)" in written


def test_search_and_paid_features_are_one_charge(run: Run) -> None:
    Path("space.toml").write_text(
        'learner = "linear"\n[choices]\nnorm = [0.2, 0.5]\n[build]\nnorm = "$norm"\nsteps = 3\n'
    )
    options = ("--epsilon", "4", "--search", "grid", "--space", "space.toml", "--features", "pca,components=3")
    result = run("fit", "wisconsin", *options, "--out", "m", "--json").json
    assert result["search"]["point"]["norm"] in (0.2, 0.5)
    assert result["workflow"] == "aware"
    assert result["certified"] is True
    assert any(line.startswith("release principal components: ") for line in result["plan"])
    assert any(line.startswith("Search: grid tunes norm of linear") for line in result["plan"])
    assert len(spends(Path("m/run.ledger"))) == 1
    assert Ledger.open(Path("m/run.ledger")).spent() == pytest.approx(result["epsilon"])
    assert run("verify", "m", "--ledger", "m/run.ledger").code == 0
    assert run("predict", "m", "wisconsin", "--out", "p.csv").code == 0


def test_standard_workflow_is_said_in_result_and_report(run: Run) -> None:
    result = run(
        "fit", "wisconsin", "--epsilon", "1", "--select", "top", "--workflow", "standard", "--out", "m", "--json"
    )
    assert result.json["workflow"] == "standard"
    assert result.json["certified"] is False
    assert "NOT PRIVATE" in Path("m/report.html").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--search", "rss"), "did you mean rs?"),
        (("--trials", "3"), "expected --search"),
        (("--features", "pca,components"), "expected --features NAME"),
        (("--features", "pcaa"), "a feature named one of"),
        (("--workflow", "none"), "aware or standard"),
        (("--public", "wisconsin", "--learner", "private_knn"), "other rows than the private ones"),
    ],
)
def test_wrong_search_or_features_are_refused_before_the_charge(run: Run, options: Any, words: str) -> None:
    result = run("fit", "wisconsin", "--out", "m", *options)
    assert result.code == 2
    assert words in result.err
    assert not Path("m").exists()


def test_dry_run_promises_nothing_if_the_run_is_refused(run: Run, people: Path) -> None:
    assert run("fit", people, "--schema", "people.toml", "--learner", "majority", "--out", "m").code == 0
    pd.read_csv(people).drop(columns="town").to_csv("part.csv", index=False)
    call = ("fit", "part.csv", "--target", "y", "--learner", "majority")
    before = contents(Path())
    plan = run(*call, "--dry-run")
    assert plan.out.startswith("Dry run: nothing was charged, and no model was trained.\n")
    assert (plan.out + plan.err).count("would be refused") == 1
    assert "'part.csv' probably shares rows with a table that was charged to" in plan.err
    assert "--new-ledger" in run(*call, "--dry-run", "--json").json["refusal"]
    assert contents(Path()) == before
    assert run(*call, "--out", "other").code == 2


def test_dry_run_refuses_a_folder_of_another_model(run: Run, people: Path) -> None:
    assert run("fit", people, "--schema", "people.toml", "--learner", "majority", "--out", "m").code == 0
    write_people(Path("others.csv"), seed=5)
    Path("file").touch()
    for folder, words in (("m", "'m' holds a finished model"), ("file", "got the file 'file'")):
        for declared in (("--target", "y"), ("--schema", "people.toml")):
            call = ("fit", "others.csv", *declared, "--learner", "majority", "--out", folder)
            plan, real = run(*call, "--dry-run"), run(*call)
            assert words in plan.err
            assert plan.out == "Dry run: nothing was charged, and no model was trained.\n"
            assert (real.code, words in real.err) == (2, True)


def test_refusal_of_another_unit_names_working_options(run: Run, people: Path) -> None:
    frame = pd.read_csv(people)
    frame.assign(pid=[at // 2 for at in range(len(frame))]).to_csv("visits.csv", index=False)
    call = ("fit", "visits.csv", "--target", "y", "--learner", "majority", "--epsilon", 0.5)
    persons = ("--unit", "pid", "--cap", 2)
    assert run(*call, *persons, "--limit", 3, "--out", "first").code == 0
    refused = run(*call, "--out", "rows")
    assert "got 'row'; take --unit pid --cap 2 to charge this ledger, or --ledger FILE to begin one" in refused.err
    assert run(*call, *persons, "--out", "persons").code == 0
    assert run(*call, "--ledger", "rows.ledger", "--out", "rows").code == 0
    assert "got 'pid'; take --unit row to charge" in run(*call, *persons, "--ledger", "rows.ledger", "--out", "n").err
    assert run(*call, "--unit", "row", "--ledger", "rows.ledger", "--limit", 0.5, "--out", "rows").code == 0


def test_similar_rows_of_another_unit_name_its_options(run: Run, people: Path) -> None:
    frame = pd.read_csv(people)
    frame.assign(pid=[at // 2 for at in range(len(frame))]).to_csv("visits.csv", index=False)
    call = ("--target", "y", "--learner", "majority", "--epsilon", 0.5, "--limit", 3)
    assert run("fit", "visits.csv", *call, "--unit", "pid", "--cap", 2, "--out", "m").code == 0
    refused = run("fit", people, *call, "--out", "n").err
    assert "has another unit, cap or relation than this run, so no epsilon holds for both" in refused
    assert "visits.csv.ledger --unit pid --cap 2 to charge them there, --ledger FILE to begin a ledger" in refused
    assert run("fit", people, *call, "--ledger", "rows.ledger", "--out", "n").code == 0


def test_dry_run_refuses_a_row_without_a_person(run: Run, people: Path) -> None:
    frame = pd.read_csv(people)
    frame.assign(pid=[None if at == 3 else at // 2 for at in range(len(frame))]).to_csv("visits.csv", index=False)
    call = ("fit", "visits.csv", "--unit", "pid", "--cap", 2, "--learner", "majority")
    for more in ((), ("--dry-run",)):
        result = run(*call, "--target", "y", *more)
        assert (result.code, "line 5: expected a value that says whose row it is" in result.err) == (2, True)
    unread = run(*call, "--schema", "people.toml", "--dry-run")
    assert (unread.code, "every row has a value in the unit column 'pid'" in unread.err) == (0, True)


def test_json_names_the_learners_that_were_considered(run: Run, people: Path) -> None:
    rows = run("fit", people, "--target", "y", "--dry-run", "--json").json["considered"]
    assert [row["learner"] for row in rows if row["taken"]] == ["fourier"]
    assert all(row["reason"] for row in rows)


def test_dry_run_says_what_is_not_used_and_what_is_assumed(run: Run, tmp_path: Path) -> None:
    frame = pd.DataFrame({"patient_id": range(60), "age": [20 + at % 50 for at in range(60)], "y": ["a", "b"] * 30})
    frame.to_csv("d.csv", index=False)
    dry = run("fit", "d.csv", "--target", "y", "--epsilon", "1", "--dry-run")
    real = run("fit", "d.csv", "--target", "y", "--epsilon", "1", "--out", "m")
    for result in (dry, real):
        assert "Not used: 'patient_id' (by its name it identifies persons or cases)" in result.err
        assert "Assumed to be public: the number of rows; the names of the columns" in result.err
        assert "; the classes of y.\n" in result.err
    assert not Path("d.csv.ledger-journal").exists()


@pytest.mark.parametrize(
    "options",
    [
        ("digits",),
        ("wisconsin", "--select", "top", "--score-epsilon", "0.3", "--metric", "auc"),
        ("medical_cost", "--epsilon", "0.01"),
        ("people.csv", "--target", "y", "--metric", "auc"),
    ],
)
def test_plan_has_at_most_eight_lines(run: Run, people: Path, options: tuple[str, ...]) -> None:
    lines = run("fit", *options, "--dry-run").err.splitlines()
    assert lines[0].startswith(f"Data: {options[0]}, ")
    cost = next(at for at, line in enumerate(lines) if line.startswith("Cost: epsilon "))
    assert cost < 8
    assert not any("noise multiplier" in line for line in lines)


def test_plan_names_free_text_without_verbose(run: Run, tmp_path: Path) -> None:
    notes = [f"came {at} days late again" for at in range(200)]
    table = pd.DataFrame({"note": notes, "age": [18 + at % 60 for at in range(200)], "y": ["no", "yes"] * 100})
    table.to_csv(tmp_path / "notes.csv", index=False)
    lines = run("fit", tmp_path / "notes.csv", "--target", "y", "--dry-run").err.splitlines()
    assert "Columns read as free text: 'note'. If one of them is not, declare its kind (--kinds FILE)." in lines


def test_verbose_plan_names_the_noise_of_each_release(run: Run, people: Path) -> None:
    result = run("fit", people, "--target", "y", "--dry-run", "--verbose")
    assert "release bounds: 1 x Gaussian, noise multiplier" in result.err


def test_dry_run_names_columns_left_out_by_the_schema(run: Run, people: Path) -> None:
    Path("people.toml").write_text(Path("people.toml").read_text() + '\n[columns.name]\nkind = "ignore"\n')
    result = run("fit", people, "--schema", "people.toml", "--dry-run")
    assert "Not used: 'name' (left out by the schema)." in result.err
    assert "Columns that the schema does not name are not used." in result.err


def test_finished_command_on_a_spent_ledger_ends_well(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--epsilon", "1", "--out", "m", "--json")
    first, again = run(*call), run(*call)
    assert (first.code, again.code) == (0, 0)
    assert "This run has already finished, so nothing is charged. Its result is in 'm'." in again.err
    assert {**again.json, "seconds": 0} == {**first.json, "seconds": 0}
    assert len(spends(Path(f"{people}.ledger"))) == 1


NETWORKS = ["dp_adam", "dpsgd", "focal", "frozen", "hand_dp", "noise_decay", "quantile_clip", "rgp", "tanh"]


@pytest.mark.parametrize("learner", NETWORKS)
def test_networks_take_schedules_averages_and_losses(run: Run, learner: str) -> None:
    """By name or as a table; they reach the recipe of the training, and wrong ones are refused."""
    data = "digits" if learner == "hand_dp" else "wisconsin"
    call = ("fit", data, "--learner", learner, "--set", "epochs=1", "--dry-run", "--json")
    settings = ("schedule=cosine", "average=ema", 'loss={"name": "focal", "gamma": 2.0}')
    assert run(*call, *(word for each in settings for word in ("--set", each))).code == 0
    for wrong in ("schedule=cosines", "average=emma", "loss=vocal"):
        result = run(*call, "--set", wrong)
        assert (result.code, "named" in result.json["error"]) == (2, True)


def test_schedule_average_and_loss_change_what_is_released(run: Run) -> None:
    call = ("fit", "wisconsin", "--learner", "dpsgd", "--set", "steps=3", "--seed", "1")
    variants = [(), ("schedule=cosine",), ("average=ema",), ("loss=focal",)]
    released = set()
    for at, variant in enumerate(variants):
        more = [word for each in variant for word in ("--set", each)]
        assert run(*call, *more, "--out", f"m{at}").code == 0
        released.add(Path(f"m{at}/model.safetensors").read_bytes())
    assert len(released) == len(variants)
