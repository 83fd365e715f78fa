"""`privaware fit` interrupted or called again: one charge, nothing mixed, nothing overwritten."""

from __future__ import annotations

import shutil
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from privaware.ledger import Ledger
from privaware.model import Model
from privaware.workflow.run.staging import Staged
from tests.cli.people import Run, contents, write_people


def spends(path: Path) -> list[Any]:
    return [entry for entry in Ledger.open(path).entries() if entry.kind == "spend"]


def stopped(run: Run, call: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `call`, and interrupt it after its charge."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(Model, "tensor_file", stop)
        result = run(*call)
    assert result.code == 130
    says = "interrupted; the charge stays in the ledger, and the same command starts the run from the beginning without"
    assert says in result.err


def test_interrupted_run_exits_130_and_resumes_uncharged(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--out", "m")
    stopped(run, call, monkeypatch)
    assert len(spends(Path("people.csv.ledger"))) == 1
    result = run(*call)
    assert result.code == 0
    assert "Resuming" in result.err
    assert len(spends(Path("people.csv.ledger"))) == 1
    assert run("verify", "m", "--ledger", "people.csv.ledger").code == 0


def test_interrupt_before_the_charge_claims_no_charge(run: Run, people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--out", "m")
    with monkeypatch.context() as broken:
        broken.setattr("privaware.workflow.fit.recipe_plan", stop)
        assert run(*call).err.splitlines()[-1] == "privaware: interrupted; this command charged nothing"


def test_sigterm_before_the_charge_claims_no_charge(run: Run, people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--out", "m", "--json")
    with monkeypatch.context() as broken:
        broken.setattr("privaware.workflow.fit.recipe_plan", stop)
        result = run(*call)
    sentence = "terminated (SIGTERM); this command charged nothing"
    assert (result.code, result.json, result.err.splitlines()[-1]) == (
        143,
        {"error": sentence},
        f"privaware: {sentence}",
    )
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert run(*call).code == 0


def test_command_of_a_closed_run_says_that_it_is_new(run: Run, people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--limit", 9, "--out", "m")
    stopped(run, call, monkeypatch)
    assert "Entry 1 (fit people.csv with majority into m) is charged but" in run("ledger", "people.csv.ledger").out
    assert run("ledger", "people.csv.ledger", "--close", 1).code == 0
    assert "Entry 1, of the same command, was closed" in run(*call, "--dry-run").err
    again = run(*call)
    assert "Entry 1, of the same command, was closed without a result. This is a new run with its own" in again.err
    assert len(spends(Path("people.csv.ledger"))) == 2
    assert "closed without a result" not in run(*call).err


@pytest.mark.parametrize("folder_kept", [True, False])
def test_open_run_of_other_data_refuses_its_folder(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch, folder_kept: bool
) -> None:
    call = ("fit", people, "--target", "y", "--learner", "majority", "--limit", 9)
    stopped(run, (*call, "--out", "m"), monkeypatch)
    if not folder_kept:
        shutil.rmtree("m")
    former = people.read_text()
    people.write_text(former.replace("yes", "no", 1))
    refused = "'m' belongs to entry 1 (fit people.csv with majority into m, epsilon 0.9998), which is charged but not"
    assert f"This run would be refused: {refused}" in run(*call, "--out", "m", "--dry-run").err
    again = run(*call, "--out", "m")
    assert (again.code, refused in again.err) == (2, True)
    assert "for other data than these; put its data back and repeat this command to resume it" in again.err
    assert "choose another --out for the changed data, or type `privaware ledger " in again.err
    assert run(*call, "--out", "n").code == 0
    people.write_text(former)
    assert "Resuming" in run(*call, "--out", "m").err
    assert len(spends(Path("people.csv.ledger"))) == 2


def test_finished_model_in_the_way_names_the_open_run(run: Run, people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = ("fit", people, "--target", "y", "--learner", "majority", "--limit", 9, "--out", "m")
    stopped(run, call, monkeypatch)
    Path("m").rename("aside")
    assert run(*call, "--epsilon", 0.5).code == 0
    way = "to resume entry 1 (fit people.csv with majority into m) of this command, which is charged but not finished, "
    for again in (run(*call), run(*call, "--dry-run")):
        assert "'m' holds a finished model" in again.err
        assert f"{way}move that folder away and repeat the command" in again.err
    Path("m").rename("other")
    assert "Resuming" in run(*call).err
    assert len(spends(Path("people.csv.ledger"))) == 2


@pytest.mark.parametrize("declared", [("--target", "y"), ("--schema", "people.toml")])
def test_first_limit_does_not_stop_a_resumed_run(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch, declared: tuple[str, str]
) -> None:
    call = ("fit", people, *declared, "--learner", "majority", "--limit", 3, "--out", "m")
    stopped(run, call, monkeypatch)
    assert run("ledger", "people.csv.ledger", "--set-limit", 5).code == 0
    former = people.read_text()
    people.write_text(former.replace("yes", "no", 1))
    assert "leave --limit out, or change it with `privaware ledger --set-limit`" in run(*call).err
    people.write_text(former)
    sentence = "his run is already charged, so the present limit of the ledger, 5, stands, and --limit 3 has no effect."
    for again in (run(*call, "--dry-run"), run(*call)):
        assert (again.code, again.err.count(sentence)) == (0, 1)
    assert len(spends(Path("people.csv.ledger"))) == 1
    done = run(*call, "--dry-run")
    assert "would be refused" not in done.err
    other = run(*call, "--epsilon", 0.5, "--out", "n")
    assert "leave --limit out, or change it with `privaware ledger --set-limit`" in other.err


@pytest.mark.parametrize("ledger", ["people.csv.ledger", "other.ledger"])
def test_folder_of_a_charged_run_is_refused_to_another_run(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch, ledger: str
) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--limit", 9, "--out", "m")
    stopped(run, (*call, "--ledger", "people.csv.ledger"), monkeypatch)
    other = run(*call, "--epsilon", 0.4, "--ledger", ledger)
    assert other.code == 2
    assert "'m' belongs to entry 1 (fit people.csv with majority into m) of" in other.err
    assert "people.csv.ledger --close 1`" in other.err
    assert not Path("other.ledger").exists() or not spends(Path("other.ledger"))
    assert len(spends(Path("people.csv.ledger"))) == 1
    assert run(*call, "--ledger", "people.csv.ledger").code == 0


def test_dry_run_foretells_that_the_folder_is_not_free(run: Run, people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--limit", 9, "--out", "m")
    stopped(run, call, monkeypatch)
    assert "would be refused: 'm' belongs to entry 1" in run(*call, "--epsilon", 0.4, "--dry-run").err


def test_closed_run_leaves_its_folder_to_another_run(run: Run, people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--limit", 9, "--out", "m")
    stopped(run, call, monkeypatch)
    assert run("ledger", "people.csv.ledger", "--close", 1).code == 0
    assert run(*call, "--epsilon", 0.4).code == 0
    assert sorted(path.name for path in Path("m").iterdir()) == ["model.json", "model.safetensors", "report.html"]


def test_killed_training_of_a_network_goes_on_where_it_stopped(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = 'architecture={"name": "fcn", "hidden": [4], "dropout": 0.0}'
    call = ("fit", people, "--schema", "people.toml", "--learner", "dpsgd", "--set", network, "--set", "steps=250")
    trained = import_module("privaware.descent._training").Training
    one_step, steps = trained.one_step, list[int]()

    def counted(training: Any) -> None:
        one_step(training)
        steps.append(training.state.step)
        if len(steps) == 230:
            raise KeyboardInterrupt

    monkeypatch.setattr(trained, "one_step", counted)
    stopped_at = run(*call, "--out", "m")
    assert (stopped_at.code, "the same command resumes the run at its last checkpoint without" in stopped_at.err) == (
        130,
        True,
    )
    resumed = run(*call, "--out", "m")
    assert resumed.code == 0
    assert "continues where it stopped" in resumed.err
    assert steps[230:] == list(range(201, 251))  # saved after 200 steps
    assert len([entry for entry in Ledger.open("people.csv.ledger").entries() if entry.kind == "spend"]) == 1
    assert sorted(path.name for path in Path("m").iterdir()) == ["model.json", "model.safetensors", "report.html"]


def test_a_ledger_inside_the_folder_does_not_stop_a_resumed_run(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ("--ledger", "m/own.ledger")
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--out", "m", *ledger)
    stopped(run, call, monkeypatch)
    assert run(*call).code == 0
    assert len(spends(Path("m/own.ledger"))) == 1


def test_full_disk_at_the_end_gives_one_sentence_and_run_resumes(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--out", "m")
    with monkeypatch.context() as broken:

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        broken.setattr("privaware.workflow.run.staging.Staged.add", full)
        result = run(*call)
    assert result.code == 2
    assert result.err.splitlines()[-1].endswith("the same command resumes the run once there is room")
    assert run(*call).code == 0
    assert len(spends(Path("people.csv.ledger"))) == 1


def test_repeated_run_shows_the_test_score_and_old_statement(run: Run, people: Path) -> None:
    write_people(Path("test.csv"), rows=100, seed=1)
    for name in ("a", "b"):
        Path(f"{name}.toml").write_text(f'owner = "{name}"')
    call = ("fit", people, "--schema", "people.toml", "--learner", "linear", "--out", "m")
    first = run(*call, "--test", "test.csv", "--describe", "a.toml")
    (score,) = [line for line in first.out.splitlines() if line.startswith("Internal, not for release: ")]
    again = run(*call, "--test", "test.csv", "--describe", "a.toml")
    assert score in again.out.splitlines()
    assert "statement" not in again.err
    other = run(*call, "--describe", "b.toml")
    assert "No score was computed" in other.out
    assert "The statement of --describe is not used, because the finished result keeps the one" in other.err
    assert run("report", "m", "--describe", "b.toml", "--out", "page.html").code == 0
    assert len(spends(Path("people.csv.ledger"))) == 1


def test_a_finished_folder_is_never_overwritten(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--limit", 9)
    assert run(*call, "--out", "m").code == 0
    before = contents(Path.cwd())
    for extra, code in (([], 0), (["--epsilon", "2"], 2), (["--seed", "1"], 2)):  # the first is this very run
        result = run(*call, *extra, "--out", "m")
        assert (result.code, len(result.err.splitlines())) == (code, 1)
    assert contents(Path.cwd()) == before


def test_a_folder_with_other_files_is_left_alone(run: Run, people: Path) -> None:
    Path("m").mkdir()
    Path("m/thesis.txt").write_text("years of work")
    assert run("fit", people, "--schema", "people.toml", "--out", "m").code == 2
    assert run("fit", people, "--schema", "people.toml", "--out", "people.toml").code == 2
    assert contents(Path("m")) == {"thesis.txt": b"years of work"}
    assert not Path("people.csv.ledger").exists()


def test_run_after_folder_was_moved_is_charged_again(run: Run, people: Path) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--limit", 9, "--out", "m")
    for name in ("first", "second"):
        assert run(*call).code == 0
        Path("m").rename(name)
    assert len(spends(Path("people.csv.ledger"))) == 2
    for name in ("first", "second"):
        assert run("verify", name, "--ledger", "people.csv.ledger").code == 0


def test_p13_card_and_tensors_of_two_runs_never_mix(run: Run, people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run ends in the ledger but is not published; another that would begin in its folder is refused."""
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--limit", 9, "--out", "m")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(Staged, "publish", stop)
        assert run(*call, "--epsilon", 1).code == 130
    other = run(*call, "--epsilon", 2)
    assert (other.code, "complete result of another run" in other.err) == (2, True)
    assert run(*call, "--epsilon", 1).code == 0
    verdict = run("verify", "m", "--ledger", "people.csv.ledger", "--json").json
    assert verdict["valid"]
    assert verdict["epsilon"]["pld"] <= 1.0
    assert len(spends(Path("people.csv.ledger"))) == 1


def test_run_stopped_before_last_rename_is_published_unchanged(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ("fit", people, "--schema", "people.toml", "--learner", "majority", "--out", "m", "--json")
    with monkeypatch.context() as broken:

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        broken.setattr(Staged, "publish", stop)
        assert run(*call).code == 130
    tensors = Path("m/.staged/model.safetensors").read_bytes()
    assert run(*call).json["out"] == "m"
    assert Path("m/model.safetensors").read_bytes() == tensors
    assert len(spends(Path("people.csv.ledger"))) == 1


@pytest.mark.parametrize("verb", [("predict", "m", "people.csv"), ("verify", "m"), ("report", "m")])
def test_folder_of_an_open_run_is_said_to_be_unfinished(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]
) -> None:
    stopped(run, ("fit", people, "--schema", "people.toml", "--learner", "majority", "--out", "m"), monkeypatch)
    result = run(*verb)
    assert result.code == 2
    assert "'m' is the folder of a run that is charged but not finished" in result.err
    assert "repeat its command with the same data to finish it without another charge" in result.err
