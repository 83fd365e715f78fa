"""What `privaware fit` promises: plan, price, charge, resume, and a folder that gives nothing private away."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware.ledger import Ledger
from privaware.model import Model
from privaware.workflow import _output
from tests.cli.people import Run, contents, watched, write_people

FIELDS = {"epsilon", "delta", "learner", "plan", "certified", "internal", "seconds", "out"}


def spends(path: Path) -> list[Any]:
    return [entry for entry in Ledger.open(path).entries() if entry.kind == "spend"]


# What comes back


def test_the_json_has_the_fields_and_progress_goes_to_stderr(run: Run, people: Path) -> None:
    done = run("fit", people, "--target", "y", "--accept-schema", "--out", "m", "--json")
    assert done.code == 0
    made = done.json
    assert set(made) == FIELDS
    assert made["epsilon"] <= 1.0
    assert made["delta"] == 1e-5
    assert made["learner"] == "linear"
    assert made["certified"] is True
    assert made["internal"] == {"test_score": None}  # every row trained
    assert made["out"] == "m"
    assert made["seconds"] > 0
    assert all(words in done.err for words in made["plan"])
    assert {item.name for item in Path("m").iterdir()} == {"model.json", "model.safetensors", "report.html"}


def test_a_person_is_told_the_guarantee_and_where_things_are(run: Run, people: Path) -> None:
    done = run("fit", people, "--schema", "people.toml", "--learner", "majority", "--out", "m")
    assert done.out.startswith("Whoever sees this model")
    assert "model folder: m" in done.out
    assert "report: m/report.html" in done.out


def test_p32_scores_are_printed_and_never_written(run: Run, people: Path, tmp_path: Path) -> None:
    test = write_people(tmp_path / "test.csv", rows=211, seed=5)
    made = run("fit", people, "--schema", "people.toml", "--test", test, "--out", "m", "--json").json
    score = made["internal"]["test_score"]
    assert 0 < score < 1
    assert made["internal"]["constant_score"] > 0.4
    forms = {repr(score), f"{score:.4f}", f"{100 * score:.2f}", "test_score", "constant_score"}
    for name, content in contents(Path("m")).items():
        assert not [form for form in forms if form.encode() in content], name
        assert struct.pack("<d", score) not in content, name


def test_built_in_data_are_scored_on_their_test_rows_and_have_their_own_ledger(run: Run) -> None:
    made = run("fit", "wisconsin", "--out", "a/m", "--json").json
    assert made["internal"]["test_score"] > 0.8
    assert len(spends(Path("a/m/run.ledger"))) == 1
    assert run("fit", "wisconsin", "--learner", "majority", "--out", "a/n", "--json").code == 0
    assert run("verify", "a/m", "--ledger", "a/m/run.ledger").code == 0


def test_a_seed_is_recorded_charged_and_marks_the_result(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--seed", 7, "--limit", 9)
    made = run(*call, "--out", "m", "--json").json
    assert made["certified"] is False
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


# Kinds of data


def test_regression_reports_the_error_in_the_targets_unit(run: Run, tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    age, smoker = draw.integers(18, 65, 1500), draw.choice(["no", "yes"], 1500)
    charges = 250.0 * age + 20000 * (smoker == "yes") + draw.normal(0, 1000, 1500)
    table = pd.DataFrame({"age": age, "smoker": smoker, "charges": charges})
    table[:1000].to_csv("train.csv", index=False)
    table[1000:].to_csv("test.csv", index=False)
    call = ("--target", "charges", "--task", "regression", "--test", "test.csv", "--epsilon", 8)
    made = run("fit", "train.csv", *call, "--accept-schema", "--out", "m", "--json").json
    assert made["internal"]["test_score"] > 0.5
    assert made["internal"]["mae"] < 6000
    assert run("predict", "m", "test.csv", "--out", "p.csv", "--json").json["rows"] == 500
    predicted = pd.read_csv("p.csv")
    assert list(predicted) == ["prediction"]
    assert np.corrcoef(predicted["prediction"], charges[1000:])[0, 1] > 0.7


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


def test_few_whole_numbers_are_classes_unless_told_otherwise(run: Run, tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    pd.DataFrame({"x": draw.normal(size=300), "grade": draw.integers(0, 4, 300)}).to_csv("d.csv", index=False)
    call = ("fit", "d.csv", "--target", "grade", "--accept-schema", "--epsilon", 0.1, "--dry-run", "--json")
    assert run(*call).json["learner"] == "majority"
    assert run(*call, "--task", "regression").json["learner"] == "mean"


def test_p34_rows_of_one_person_are_capped_and_charged_together(run: Run, tmp_path: Path) -> None:
    draw = np.random.default_rng(4)
    x = draw.normal(size=900)
    label = np.where(x > 0, "up", "down")
    pd.DataFrame({"who": np.arange(900) // 3, "x": x, "label": label}).to_csv("d.csv", index=False)
    call = ("fit", "d.csv", "--target", "label", "--accept-schema", "--unit", "who", "--epsilon", 2)
    made = run(*call, "--cap", 2, "--learner", "majority", "--out", "m", "--json").json
    assert made["epsilon"] <= 2
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


def test_pate_takes_public_rows(run: Run, people: Path, tmp_path: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "pate", "--out", "m", "--epsilon", 4)
    assert "--public" in run(*call).err
    pool = write_people(tmp_path / "pool.csv", rows=250, seed=9)
    unlabelled = "\n".join(line.rsplit(",", 1)[0] for line in pool.read_text().splitlines())
    pool.write_text(unlabelled + "\n")
    assert run(*call, "--public", pool, "--set", "teachers=10", "--json").json["learner"] == "pate"
    assert "pool" not in Path("m/model.json").read_text()


@pytest.mark.parametrize("name", ["digits", "wisconsin"])
def test_built_in_data_bring_their_own_public_rows(run: Run, name: str) -> None:
    made = run("fit", name, "--learner", "pate", "--epsilon", 8, "--out", "m", "--json").json
    assert made["internal"]["test_score"] is not None


@pytest.mark.parametrize("learner", ["linear", "majority"])
@pytest.mark.parametrize("way", ["--accept-schema", "--private-schema"])
def test_text_is_learnt_scored_and_predicted(run: Run, learner: str, way: str) -> None:
    draw = np.random.default_rng(6)
    words = ["win", "cash", "hello", "friend", "tomorrow", "now", "free", "call", "dinner", "later"]
    text = [" ".join(draw.choice(words, 6)) for _ in range(400)]
    label = ["spam" if "win" in words else "ham" for words in text]
    pd.DataFrame({"text": text, "kind": label}).to_csv("d.csv", index=False)
    call = ("--target", "kind", way, "--learner", learner, "--test", "d.csv", "--epsilon", 8)
    made = run("fit", "d.csv", *call, "--out", "m", "--json").json
    assert made["internal"]["test_score"] > (0.8 if learner == "linear" else 0.2)
    assert run("predict", "m", "d.csv", "--out", "p.csv", "--json").json["rows"] == 400
    assert run("verify", "m", "--ledger", "d.csv.ledger").code == 0


# Schemas


def test_a_private_schema_is_paid_for_and_can_be_scored(run: Run, people: Path, tmp_path: Path) -> None:
    test = write_people(tmp_path / "test.csv", rows=100, seed=5)
    call = ("--private-schema", "--epsilon", 4, "--learner", "linear", "--test", test)
    made = run("fit", people, "--target", "y", *call, "--out", "m", "--json").json
    assert made["internal"]["test_score"] is not None
    facts = json.loads(Path("m/model.json").read_text())
    assert [part["what"] for part in facts["events"]] == ["release bounds", "train linear"]
    assumed = " ".join(facts["guarantee"]["assumptions"])
    assert "range of age" not in assumed
    assert "categories of town" not in assumed
    assert run("verify", "m", "--ledger", "people.csv.ledger").code == 0


def test_a_private_constant_pays_for_no_bounds(run: Run, people: Path) -> None:
    call = ("--target", "y", "--private-schema", "--learner", "majority", "--test", people)
    made = run("fit", people, *call, "--out", "m", "--json").json
    assert made["internal"]["test_score"] is not None
    assert len(json.loads(Path("m/model.json").read_text())["events"]) == 1
    assert run("predict", "m", people, "--out", "p.csv", "--json").json["rows"] == 300


def test_without_a_schema_or_a_terminal_the_ways_out_are_named(run: Run, people: Path) -> None:
    done = run("fit", people, "--target", "y", "--out", "m")
    assert done.code == 2
    assert all(way in done.err for way in ("--accept-schema", "--private-schema", "--schema"))
    assert not Path("people.csv.ledger").exists()
    assert not Path("m").exists()


@pytest.mark.parametrize(
    "extra",
    [["--accept-schema"], ["--target", "age"], ["--task", "regression"], ["--private-schema", "--accept-schema"]],
    ids=" ".join,
)
def test_a_call_that_contradicts_the_schema_is_refused(run: Run, people: Path, extra: list[str]) -> None:
    assert run("fit", people, "--schema", "people.toml", *extra, "--out", "m").code == 2
    assert not Path("people.csv.ledger").exists()


# No row read


def test_a_dry_run_with_a_declared_schema_does_not_open_the_file(run: Run, people: Path, tmp_path: Path) -> None:
    with watched(tmp_path / "pipe.csv") as seen:
        done = run("fit", "pipe.csv", "--schema", "people.toml", "--dry-run", "--json")
    assert seen == []
    assert done.code == 0
    assert set(done.json) == FIELDS
    assert done.json["out"] is None
    assert not Path("pipe.csv.ledger").exists()
    assert not Path("pipe.csv-model").exists()


def test_the_watch_on_a_pipe_sees_a_reader(run: Run, people: Path, tmp_path: Path) -> None:
    with watched(tmp_path / "pipe.csv") as seen:
        assert run("fit", "pipe.csv", "--schema", "people.toml", "--out", "m").code == 2
    assert seen


@pytest.mark.parametrize("learner", ["auto", "pate"])
def test_a_dry_run_needs_no_files_of_built_in_data(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learner: str
) -> None:
    monkeypatch.setenv("PRIVAWARE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = run("fit", "mnist", "--learner", learner, "--dry-run", "--json").json
    assert made["epsilon"] <= 1.0
    assert made["plan"]


# The ledger


def test_spending_past_the_limit_is_refused_before_the_file_is_opened(run: Run, people: Path, tmp_path: Path) -> None:
    call = ("--schema", "people.toml", "--learner", "majority", "--ledger", "one.ledger")
    assert run("fit", people, *call, "--out", "m").code == 0
    with watched(tmp_path / "pipe.csv") as seen:
        done = run("fit", "pipe.csv", *call, "--out", "n", "--json")
    assert seen == []
    assert done.code == 3
    assert len(done.err.splitlines()) == 1
    assert "--set-limit" in done.json["error"]
    assert not Path("n").exists()


def test_a_raised_limit_lets_the_next_run_through(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority")
    assert run(*call, "--out", "m").code == 0  # people.csv.ledger, with the limit 1
    assert run(*call, "--out", "n").code == 3
    changed = run("ledger", "people.csv.ledger", "--set-limit", 2.5, "--json").json
    assert (changed["limit"], len(changed["events"])) == (2.5, 1)
    assert run(*call, "--out", "n").code == 0
    told = run("ledger", "people.csv.ledger", "--json").json
    assert 1.9 < told["epsilon_spent"] <= told["limit"]
    assert {"epsilon_spent", "delta", "limit", "events"} <= set(told)
    assert run("ledger", "people.csv.ledger", "--set-limit", 0.5).code == 2
    assert len(run("ledger", "people.csv.ledger").out.splitlines()) == 3


@pytest.mark.parametrize("extra", [["--delta", "1e-6"], ["--limit", "7"], ["--unit", "label"]], ids=" ".join)
def test_a_ledger_keeps_its_limit_delta_and_unit(run: Run, people: Path, extra: list[str]) -> None:
    call = ("fit", people, "--target", "y", "--accept-schema", "--learner", "majority", "--epsilon", 0.1)
    assert run(*call, "--limit", 5, "--out", "m").code == 0
    before = Path("people.csv.ledger").read_bytes()
    done = run(*call, *extra, "--out", "n")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert Path("people.csv.ledger").read_bytes() == before
    assert run(*call, "--out", "n").code == 0  # without saying anything new


# Interrupted and finished


def test_an_interrupted_run_exits_130_and_resumes_without_a_second_charge(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--out", "m")
    with monkeypatch.context() as broken:

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        broken.setattr(Model, "save", stop)
        assert run(*call).code == 130
    assert len(spends(Path("people.csv.ledger"))) == 1
    done = run(*call)
    assert done.code == 0
    assert "resuming" in done.err
    assert len(spends(Path("people.csv.ledger"))) == 1
    assert run("verify", "m", "--ledger", "people.csv.ledger").code == 0


def test_a_ledger_inside_the_folder_does_not_stop_a_resumed_run(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--out", "m")
    with monkeypatch.context() as broken:

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        broken.setattr(Model, "save", stop)
        assert run(*call, "--ledger", "m/own.ledger").code == 130
    assert run(*call, "--ledger", "m/own.ledger").code == 0
    assert len(spends(Path("m/own.ledger"))) == 1


def test_a_full_disk_at_the_end_is_one_sentence_and_the_run_resumes(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--out", "m")
    with monkeypatch.context() as broken:

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        broken.setattr("privaware.workflow._output.atomic_write", full)
        done = run(*call)
    assert done.code == 2
    assert done.err.splitlines()[-1].endswith("the same command resumes once there is room")
    assert run(*call).code == 0
    assert len(spends(Path("people.csv.ledger"))) == 1


def test_a_finished_folder_is_never_overwritten(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--limit", 9)
    assert run(*call, "--out", "m").code == 0
    before = contents(Path.cwd())
    for extra in ([], ["--epsilon", "2"], ["--seed", "1"]):
        done = run(*call, *extra, "--out", "m")
        assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert contents(Path.cwd()) == before


def test_a_folder_with_other_files_is_left_alone(run: Run, people: Path) -> None:
    Path("m").mkdir()
    Path("m/thesis.txt").write_text("years of work")
    assert run("fit", people, "--schema", "people.toml", "--out", "m").code == 2
    assert run("fit", people, "--schema", "people.toml", "--out", "people.toml").code == 2
    assert contents(Path("m")) == {"thesis.txt": b"years of work"}
    assert not Path("people.csv.ledger").exists()


def test_a_folder_taken_away_costs_a_new_charge(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--limit", 9, "--out", "m")
    for name in ("first", "second"):
        assert run(*call).code == 0
        Path("m").rename(name)
    assert len(spends(Path("people.csv.ledger"))) == 2
    for name in ("first", "second"):
        assert run("verify", name, "--ledger", "people.csv.ledger").code == 0


def test_p13_two_settings_in_one_folder_never_mix(run: Run, people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run ends in the ledger but is not published; another begins in its folder and is stopped."""
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--limit", 9, "--out", "m")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(_output, "publish_model", stop)
        assert run(*call, "--epsilon", 1).code == 130
    with monkeypatch.context() as broken:
        broken.setattr(_output, "prepare_model", stop)  # its tensors are written, its card is not
        assert run(*call, "--epsilon", 2).code == 130
    assert run(*call, "--epsilon", 1).code == 0
    told = run("verify", "m", "--ledger", "people.csv.ledger", "--json").json
    assert told["valid"]
    assert told["epsilon"]["pld"] <= 1.0
    assert len(spends(Path("people.csv.ledger"))) == 3  # the first model is lost, so it was charged anew


def test_a_run_stopped_just_before_the_last_rename_is_published_as_it_was(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--out", "m", "--json")
    with monkeypatch.context() as broken:

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        broken.setattr(_output, "publish_model", stop)
        assert run(*call).code == 130
    tensors = Path("m/model.safetensors").read_bytes()
    assert run(*call).json["out"] == "m"
    assert Path("m/model.safetensors").read_bytes() == tensors
    assert len(spends(Path("people.csv.ledger"))) == 1


def test_a_table_of_nothing_but_a_target_gets_a_constant(run: Run, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("y\n" + "yes\nno\n" * 50)
    words = ("fit", "one.csv", "--target", "y", "--accept-schema", "--epsilon", 2, "--json")
    assert run(*words, "--out", "made").json["learner"] == "majority"
    refused = run(*words, "--learner", "linear", "--out", "other")
    assert refused.code == 2
    assert "column beside the target" in refused.err
