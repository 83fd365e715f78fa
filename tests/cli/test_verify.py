"""`privaware verify`: whatever was changed in a model folder or its ledger is detected."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.people import Run


def edit(model: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = model / "model.json"
    facts = json.loads(path.read_text())
    change(facts)
    path.write_text(json.dumps(facts))


def test_unchanged_model_is_valid_by_both_accountants(run: Run, model: Path) -> None:
    verdict = run("verify", model, "--ledger", "people.csv.ledger", "--json")
    assert verdict.code == 0
    assert verdict.json["valid"] is True
    assert verdict.json["certified"] is True
    assert verdict.json["delta"] == 1e-5
    assert verdict.json["epsilon"]["pld"] == pytest.approx(verdict.json["epsilon"]["cf"], rel=5e-3)
    assert verdict.json["bound"] is True
    assert (verdict.json["unchecked"], verdict.json["signed"]) == ([], None)
    lines = run("verify", model, "--ledger", "people.csv.ledger").out.splitlines()
    assert lines[:2] == ["valid", "The files are those that were released, according to the ledger."]
    alone = run("verify", model).out.splitlines()
    assert alone[0] == "valid"
    assert alone[1].startswith("not checked: without --ledger: ")


def test_p44_model_of_earlier_version_is_reported_as_not_bound(run: Run) -> None:
    earlier = Path(__file__).parents[1] / "workflow" / "unbound"
    result = run("verify", earlier / "model", "--ledger", earlier / "people.ledger")
    assert result.code == 0
    assert result.out.splitlines()[0] == "valid"
    assert result.out.splitlines()[1].startswith("not checked: report.html is worded otherwise")
    assert result.out.splitlines()[2].startswith("not bound: an earlier version closed this run without the hashes")


def more_noise(facts: dict[str, Any]) -> None:
    facts["events"][0]["event"]["event"]["noise"] *= 2


def less_noise(facts: dict[str, Any]) -> None:
    facts["events"][0]["event"]["event"]["noise"] *= 0.99


def fewer_steps(facts: dict[str, Any]) -> None:
    facts["events"][0]["event"]["count"] -= 10


def no_events(facts: dict[str, Any]) -> None:
    facts["events"] = []


def countless_steps(facts: dict[str, Any]) -> None:
    facts["events"][0]["event"]["count"] = 10**40


def smaller_claim(facts: dict[str, Any]) -> None:
    facts["guarantee"]["epsilon"] /= 2


def another_unit(facts: dict[str, Any]) -> None:
    facts["guarantee"]["unit"] = "person"


def unproven(facts: dict[str, Any]) -> None:
    facts["events"].append({"what": "magic", "event": {"kind": "Unproven", "reason": "none"}})


@pytest.mark.parametrize(
    "change", [more_noise, less_noise, fewer_steps, no_events, countless_steps, smaller_claim, another_unit, unproven]
)
def test_a_changed_claim_or_event_is_not_valid(run: Run, model: Path, change: Callable[[dict[str, Any]], None]) -> None:
    edit(model, change)
    verdict = run("verify", model, "--json")
    assert verdict.code == 4
    assert verdict.json["valid"] is False
    assert verdict.json["problems"]


def test_a_changed_tensor_is_not_valid(run: Run, model: Path) -> None:
    path = model / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    assert run("verify", model, "--json").code == 4


def test_removed_seed_is_detected_by_the_ledger(run: Run, people: Path) -> None:
    call = ("--schema", "people.toml", "--learner", "majority", "--seed", 3)
    assert run("fit", people, *call, "--out", "m").code == 0
    seeded = run("verify", "m", "--ledger", "people.csv.ledger", "--json").json
    assert (seeded["certified"], seeded["reason"].startswith("seeded")) == (False, True)
    edit(Path("m"), lambda facts: facts["guarantee"].update(seed=None, certified=True))
    verdict = run("verify", "m", "--ledger", "people.csv.ledger", "--json")
    assert verdict.code == 4
    assert "the ledger says seed 3, the model None" in verdict.json["problems"]


def rewritten(db: sqlite3.Connection) -> None:
    db.execute("DROP TRIGGER no_update")
    db.execute("UPDATE entries SET body = replace(body, 'linear', 'nothing')")


def shortened(db: sqlite3.Connection) -> None:
    db.execute("DROP TRIGGER no_delete")
    db.execute("DELETE FROM entries WHERE number > 0")


def dressed_up(db: sqlite3.Connection) -> None:
    """The guards are put back after the edit."""
    guard = db.execute("SELECT sql FROM sqlite_master WHERE name = 'no_update'").fetchone()[0]
    rewritten(db)
    db.execute(guard)


@pytest.mark.parametrize("tamper", [rewritten, shortened, dressed_up])
def test_tampered_ledger_fails_verify_and_stops_other_verbs(
    run: Run, model: Path, people: Path, tamper: Callable[[sqlite3.Connection], None]
) -> None:
    with sqlite3.connect("people.csv.ledger") as db:
        tamper(db)
    db.close()
    before = Path("people.csv.ledger").read_bytes()
    assert run("verify", model, "--ledger", "people.csv.ledger", "--json").code == 4
    for words in (
        ["ledger", "people.csv.ledger"],
        ["ledger", "people.csv.ledger", "--set-limit", 50],
        ["fit", people, "--schema", "people.toml", "--out", "n"],
    ):
        result = run(*words)
        assert (result.code, len(result.err.splitlines())) == (2, 1)
    assert Path("people.csv.ledger").read_bytes() == before


def test_model_is_not_valid_against_another_ledger(run: Run, model: Path, people: Path) -> None:
    call = ("--schema", "people.toml", "--learner", "majority", "--ledger", "other.ledger")
    assert run("fit", people, *call, "--out", "n").code == 0
    assert run("verify", model, "--ledger", "other.ledger").code == 4
    assert run("verify", model, "--ledger", "none.ledger").code == 2


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_truncated_or_missing_file_is_refused(run: Run, model: Path, people: Path, name: str) -> None:
    content_before = (model / name).read_bytes()
    for content in (content_before[: len(content_before) // 2], b"", None):
        (model / name).unlink(missing_ok=True)
        if content is not None:
            (model / name).write_bytes(content)
        for words in (["verify", model], ["predict", model, people, "--out", "p.csv"]):
            result = run(*words, "--json")
            assert (result.code, len(result.err.splitlines())) == (2, 1)
            assert set(result.json) == {"error"}


def test_p44_signed_model_verifies_by_its_public_key(run: Run, people: Path) -> None:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    key = ed25519.Ed25519PrivateKey.generate()
    pem = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    Path("key.pem").write_bytes(key.private_bytes(pem, *plain))
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    Path("public.pem").write_bytes(public)
    call = ("--schema", "people.toml", "--learner", "majority", "--sign", "key.pem")
    assert run("fit", people, *call, "--out", "m").code == 0
    signed = run("verify", "m", "--key", "public.pem", "--json")
    assert (signed.code, signed.json["signed"], signed.json["bound"]) == (0, True, True)
    assert (
        "The files are those that were released, according to a signature."
        in run("verify", "m", "--key", "public.pem").out
    )
    edit(Path("m"), lambda facts: facts["settings"].update(steps=3))
    assert run("verify", "m", "--key", "public.pem").code == 4
    assert run("verify", "m", "--key", "key.pem").code == 2


def test_p53_borrowed_signature_exits_with_4(run: Run, people: Path, model: Path) -> None:
    """The signature of a selection, copied beside a model with the file that it names, vouches for nothing."""
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    from tests.workflow.run.test_signature import write_keys

    write_keys(Path(), "owner", ed25519.Ed25519PrivateKey.generate())
    call = ("--schema", "people.toml", "--method", "worth", "--epsilon", 0.5, "--ledger", "second.ledger")
    assert run("select", people, *call, "--sign", "owner.pem", "--out", "choice").code == 0
    for name in ("selection.json", "signature.json"):
        (model / name).write_bytes((Path("choice") / name).read_bytes())
    forged = run("verify", model, "--key", "owner.pub.pem", "--json")
    assert (forged.code, forged.json["signed"], forged.json["certified"]) == (4, False, False)
    assert run("verify", "choice", "--key", "owner.pub.pem").code == 0
