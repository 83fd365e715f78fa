"""A ledger and a signature vouch for a release only if they name its kind, its run and each of its files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware import Ledger, Schema, audit, fit, report, select, verify
from privaware.errors import WrongInput
from privaware.events import NOTHING, from_json
from privaware.guarantee import sampler_sentence, sentence_of
from privaware.schema import Column
from privaware.workflow._statements import price
from tests.workflow.run.test_signature import ed25519, serialization, write_keys

LEDGER, KEY = "people.ledger", "owner.pub.pem"
SIGNATURE = "signature.json"


def table(rows: int) -> tuple[pd.DataFrame, Schema]:
    frame = pd.DataFrame({"a": np.linspace(0, 1, rows), "b": np.linspace(1, 0, rows), "y": ["no", "yes"] * (rows // 2)})
    columns = tuple(Column(name=name, low=0.0, high=1.0) for name in "ab")
    return frame, Schema(columns=columns, target="y", classes=("no", "yes"), rows=rows)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models, a selection and an audit that one owner signed, and a stranger's model under another ledger."""
    place = tmp_path_factory.mktemp("signed")
    write_keys(place, "owner", ed25519.Ed25519PrivateKey.generate())
    own: dict[str, Any] = {"epsilon": 1.0, "limit": 9.0, "ledger": place / LEDGER, "sign": place / "owner.pem"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privaware.report._charts.render", lambda chart: "")
        frame, schema = table(300)
        for name in ("one", "two"):
            fit(frame, schema=schema, learner="majority", out=place / name, **own)
        select(frame, schema=schema, method="worth", out=place / "choice", **own)
        audit(frame, schema=schema, learner="linear", insert="input", canaries=40, out=place / "audited", **own)
        other, schema = table(400)
        fit(
            other, schema=schema, epsilon=1.0, learner="majority", out=place / "stranger", ledger=place / "other.ledger"
        )
    return place


@pytest.fixture
def place(signed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("privaware.report._charts.render", lambda chart: "")
    return Path(shutil.copytree(signed, tmp_path / "signed"))


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    entries = json.loads(path.read_text())
    change(entries)
    path.write_text(json.dumps(entries, indent=1))


def sign(place: Path, folder: str, **changes: Any) -> str:
    """Writes a signature with the owner's own key over other facts than those of the release."""
    path = place / folder / SIGNATURE
    content = json.loads(path.read_text()) | changes
    del content["signature"]
    key = serialization.load_pem_private_key((place / "owner.pem").read_bytes(), password=None)
    facts = {name: value for name, value in content.items() if name != "format"}
    prefix = b"privaware release, format 2\n"
    if content["format"] == 1:
        prefix, facts = b"privaware release\n", {name: facts[name] for name in ("closing", "files")}
        content = {"format": 1, **facts}
    message = prefix + json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()
    path.write_text(json.dumps({**content, "signature": key.sign(message).hex()}))
    return folder


def files(place: Path, folder: str) -> dict[str, str]:
    return dict(json.loads((place / folder / SIGNATURE).read_text())["files"])


def borrowed(place: Path) -> str:
    for name in ("selection.json", SIGNATURE):
        shutil.copy(place / "choice" / name, place / "stranger" / name)
    return "stranger"


def borrowed_with_its_charge(place: Path) -> str:
    """The stranger's card repeats the events of the selection, and its entry in the ledger."""
    selection = json.loads((place / "choice" / "selection.json").read_text())
    event = sum((from_json(part["event"]) for part in selection["events"]), start=NOTHING)
    epsilon, delta = selection["epsilon"], selection["delta"]
    _, schema = table(400)

    def change(card: dict[str, Any]) -> None:
        card["guarantee"].update(
            epsilon=epsilon,
            delta=delta,
            accountants=price(event, delta).accountants,
            sentence=sentence_of(schema, epsilon, delta, seed=None, flaw=""),
            sampler=sampler_sentence(event),
        )
        run = next(entry.run for entry in Ledger.open(place / LEDGER).entries() if entry.hash == selection["ledger"])
        ledger = {"entry": selection["ledger"], "run": run}
        card.update(events=selection["events"], ledger=ledger, plan=[f"epsilon {epsilon:.4g} at delta {delta:g}"])

    edit(place / "stranger" / "model.json", change)
    (place / "stranger" / "report.html").unlink()
    report.write(place / "stranger")
    return borrowed(place)


def borrowed_of_another_model(place: Path) -> str:
    shutil.copy(place / "two" / SIGNATURE, place / "stranger" / SIGNATURE)
    return "stranger"


def swapped(place: Path) -> str:
    shutil.copy(place / "two" / "report.html", place / "one" / "report.html")
    return "one"


def missing_report(place: Path) -> str:
    (place / "one" / "report.html").unlink()
    return "one"


def unnamed_report(place: Path) -> str:
    missing_report(place)
    return sign(place, "one", files={name: hash for name, hash in files(place, "one").items() if "report" not in name})


def tensors_beside_a_selection(place: Path) -> str:
    shutil.copy(place / "one" / "model.safetensors", place / "choice")
    return "choice"


def selection_beside_a_model(place: Path) -> str:
    shutil.copy(place / "choice" / "selection.json", place / "one")
    return "one"


def edited_after_an_older_run(place: Path) -> str:
    card = json.loads((place / "one" / "model.json").read_text())
    edit(place / "two" / "model.json", lambda entries: entries.update(ledger=card["ledger"]))
    shutil.copy(place / "one" / SIGNATURE, place / "two" / SIGNATURE)
    return "two"


def charge_of_another_run(place: Path) -> str:
    card = json.loads((place / "two" / "model.json").read_text())
    edit(place / "one" / "model.json", lambda entries: entries.update(ledger=card["ledger"]))
    return "one"


def another_run_in_the_card(place: Path) -> str:
    edit(place / "one" / "model.json", lambda entries: entries["ledger"].update(run="another-0"))
    return "one"


def edited_kind(place: Path) -> str:
    edit(place / "one" / SIGNATURE, lambda entries: entries.update(release="selection"))
    return "one"


def edited_run(place: Path) -> str:
    edit(place / "one" / SIGNATURE, lambda entries: entries.update(run="another-0"))
    return "one"


def older_format(place: Path) -> str:
    """The signature without what the older format does not sign."""

    def change(entries: dict[str, Any]) -> None:
        del entries["release"], entries["run"]
        entries["format"] = 1

    edit(place / "one" / SIGNATURE, change)
    return "one"


def signed_other_kind(place: Path) -> str:
    return sign(place, "one", release="selection")


def signed_other_run(place: Path) -> str:
    return sign(place, "one", run="another-0")


def edited_files(place: Path) -> str:
    edit(place / "one" / SIGNATURE, lambda entries: entries.update(files={}))
    return "one"


def signed_no_files(place: Path) -> str:
    return sign(place, "one", files={})


def older_format_of_a_selection(place: Path) -> str:
    sign(place, "choice", format=1)
    return borrowed(place)


def linked_file(place: Path) -> str:
    (place / "one" / "model.json").rename(place / "elsewhere.json")
    (place / "one" / "model.json").symlink_to(place / "elsewhere.json")
    return "one"


def other_case_in_the_signature(place: Path) -> str:
    return sign(place, "one", files={name.title(): hash for name, hash in files(place, "one").items()})


def other_case_beside_a_file(place: Path) -> str:
    shutil.copy(place / "stranger" / "model.json", place / "one" / "MODEL.json")
    return "one"


def path_in_the_signature(place: Path) -> str:
    hashes = files(place, "one")
    return sign(place, "one", files={**hashes, "../two/model.json": hashes["model.json"]})


NOT_NAMED = "signature.json does not name 'model.json', 'model.safetensors', 'report.html': it is of another release"
NOT_BY = "signature.json is not by the owner of this key, or it was changed"
FORGERIES: dict[Callable[[Path], str], str] = {
    borrowed: NOT_NAMED,
    borrowed_with_its_charge: NOT_NAMED,
    borrowed_of_another_model: "'model.json' is not the file that was released",
    swapped: "'report.html' is not the file that was released",
    missing_report: "'report.html', which was released with this model, is missing",
    unnamed_report: "signature.json does not name 'report.html'",
    tensors_beside_a_selection: "'model.safetensors' is no file of this selection",
    selection_beside_a_model: "'selection.json' is no file of this model",
    edited_after_an_older_run: "'model.json' is not the file that was released",
    charge_of_another_run: "signature.json is of another run than this model names",
    another_run_in_the_card: "signature.json is of another run than this model names",
    edited_kind: NOT_BY,
    edited_run: NOT_BY,
    older_format: NOT_BY,
    signed_other_kind: "signature.json is of a release of kind 'selection', and this folder holds one of kind 'model'",
    signed_other_run: "signature.json is of another run than this model names",
    edited_files: NOT_BY,
    signed_no_files: NOT_NAMED,
    older_format_of_a_selection: NOT_NAMED,
    linked_file: "'model.json' is a link: expected the file itself",
    other_case_in_the_signature: NOT_NAMED,
    other_case_beside_a_file: "'MODEL.json' is no file of this model",
    path_in_the_signature: "'../two/model.json', which was released with this model, is no plain name of a file",
}


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_p53_forged_folder_is_refused_by_the_key(place: Path, forge: Callable[[Path], str]) -> None:
    verdict = verify(place / forge(place), key=place / KEY)
    assert (verdict.valid, verdict.signed, verdict.bound, verdict.certified) == (False, False, False, False)
    assert any(FORGERIES[forge] in problem for problem in verdict.problems), verdict.problems


BY_LEDGER: dict[Callable[[Path], str], str] = {
    borrowed_with_its_charge: "the closing entry of the ledger is of a release of kind 'selection'",
    swapped: "'report.html' is not the file that was released",
    missing_report: "'report.html', which was released with this model, is missing",
    tensors_beside_a_selection: "'model.safetensors' is no file of this selection",
    selection_beside_a_model: "'selection.json' is no file of this model",
    charge_of_another_run: "'model.json' is not the file that was released",
    another_run_in_the_card: "the ledger says run",
    linked_file: "'model.json' is a link: expected the file itself",
    other_case_beside_a_file: "'MODEL.json' is no file of this model",
}


@pytest.mark.parametrize("forge", BY_LEDGER, ids=lambda forge: forge.__name__)
def test_p53_forged_folder_is_refused_by_the_ledger(place: Path, forge: Callable[[Path], str]) -> None:
    verdict = verify(place / forge(place), ledger=place / LEDGER)
    assert (verdict.valid, verdict.bound, verdict.certified) == (False, False, False)
    assert any(BY_LEDGER[forge] in problem for problem in verdict.problems), verdict.problems


@pytest.mark.parametrize("changes", [{"release": "selection"}, {"run": "another-0"}, {"files": {}}])
def test_signature_that_contradicts_the_ledger_is_refused(place: Path, changes: dict[str, Any]) -> None:
    verdict = verify(place / sign(place, "one", **changes), ledger=place / LEDGER, key=place / KEY)
    words = "the signature names other files, another run or another kind of release than the ledger"
    assert words in verdict.problems


@pytest.mark.parametrize("folder", ["one", "choice", "audited"])
def test_signed_release_is_bound_by_key_and_by_ledger(place: Path, folder: str) -> None:
    for evidence in ({"key": place / KEY}, {"ledger": place / LEDGER}, {"key": place / KEY, "ledger": place / LEDGER}):
        verdict = verify(place / folder, **evidence)
        assert (verdict.valid, verdict.bound) == (True, True), verdict.problems


@pytest.mark.parametrize("folder", ["one", "choice"])
def test_signature_of_format_1_holds_and_says_what_it_lacks(place: Path, folder: str) -> None:
    sign(place, folder, format=1)
    verdict = verify(place / folder, key=place / KEY)
    assert (verdict.valid, verdict.signed, verdict.bound) == (True, True, True), verdict.problems
    assert any("neither the kind of release nor the name of the run" in words for words in verdict.unchecked)


def test_truncated_signature_is_one_sentence(place: Path) -> None:
    path = place / "one" / SIGNATURE
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(WrongInput, match=r"^signature\.json is damaged"):
        verify(place / "one", key=place / KEY)


def test_files_that_the_signature_does_not_name_are_listed(place: Path) -> None:
    (place / "one" / "notes.txt").write_text("hello")
    verdict = verify(place / "one", key=place / KEY)
    assert "signature.json does not name 'notes.txt', so nobody vouches for it" in verdict.unchecked


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the administrator reads every file")
def test_file_that_cannot_be_read_is_not_the_released_one(place: Path) -> None:
    (place / "one" / "report.html").chmod(0)
    verdict = verify(place / "one", key=place / KEY)
    assert any("'report.html' is not the file" in problem for problem in verdict.problems)
