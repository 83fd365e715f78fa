"""A signature binds a folder to the owner of a key, without the ledger."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware import Ledger, Schema, fit, verify
from privaware.errors import WrongInput
from privaware.schema import Column

serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
LEDGER = "people.ledger"


def write_keys(folder: Path, name: str, key: Any, password: bytes | None = None) -> None:
    """`name.pem` and `name.pub.pem`."""
    pem = serialization.Encoding.PEM
    protection = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, protection)
    (folder / f"{name}.pem").write_bytes(private)
    (folder / f"{name}.pem").chmod(0o600)
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pub.pem").write_bytes(public)


def released(place: Path, name: str, **options: Any) -> None:
    frame = pd.DataFrame({"a": np.linspace(0.1, 0.9, 200), "y": ["no", "yes"] * 100})
    schema = Schema(columns=(Column(name="a", low=0.0, high=1.0),), target="y", classes=("no", "yes"), rows=200)
    ledger = {"ledger": place / LEDGER, "limit": 6.0}
    fit(frame, schema=schema, epsilon=1.0, learner="majority", out=place / name, **ledger, **options)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("signed")
    write_keys(place, "owner", ed25519.Ed25519PrivateKey.generate())
    write_keys(place, "other", ed25519.Ed25519PrivateKey.generate())
    write_keys(place, "rsa", rsa.generate_private_key(public_exponent=65537, key_size=2048))
    write_keys(place, "locked", ed25519.Ed25519PrivateKey.generate(), password=b"secret")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("privaware.report._charts.render", lambda chart: "")
        for name in ("one", "two"):
            released(place, name, sign=place / "owner.pem")
    return place


@pytest.fixture
def place(signed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("privaware.report._charts.render", lambda chart: "")
    return Path(shutil.copytree(signed, tmp_path / "signed"))


def test_signed_folder_is_bound_with_and_without_its_ledger(place: Path) -> None:
    key = place / "owner.pub.pem"
    for ledger in (None, place / LEDGER):
        verdict = verify(place / "one", ledger=ledger, key=key)
        assert verdict.valid, verdict.problems
        assert verdict.bound
        assert verdict.signed is True
        assert len(verdict.unchecked) == (ledger is None)
    unasked = verify(place / "one", ledger=place / LEDGER)
    assert unasked.signed is None
    assert unasked.unchecked == ["signature.json: give the public key with key="]


@pytest.mark.parametrize("name", ["model.json", "report.html"])
def test_p44_changed_file_is_not_valid_under_the_signature_alone(place: Path, name: str) -> None:
    path = place / "one" / name
    path.write_bytes(path.read_bytes() + b"\n")
    verdict = verify(place / "one", key=place / "owner.pub.pem")
    assert verdict.problems == [f"'{name}' is not the file that was released: its hash is another"]
    assert verdict.signed is False


def test_p44_signature_of_another_key_or_folder_is_not_valid(place: Path) -> None:
    words = "signature.json is not by the owner of this key, or it was changed"
    assert verify(place / "one", key=place / "other.pub.pem").problems == [words]
    shutil.copy(place / "two" / "signature.json", place / "one" / "signature.json")
    assert not verify(place / "one", key=place / "owner.pub.pem").valid
    assert not verify(place / "one", key=place / "owner.pub.pem", ledger=place / LEDGER).valid


@pytest.mark.parametrize("name", ["closing", "files", "signature"])
def test_p44_edited_signature_is_not_valid(place: Path, name: str) -> None:
    path = place / "one" / "signature.json"
    content = json.loads(path.read_text())
    content[name] = {"closing": "0" * 64, "files": {}, "signature": "00" * 64}[name]
    path.write_text(json.dumps(content))
    assert not verify(place / "one", key=place / "owner.pub.pem").valid


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}', b'{"format": 3}', b"\xff"])
def test_damaged_signature_is_one_sentence(place: Path, content: bytes) -> None:
    (place / "one" / "signature.json").write_bytes(content)
    with pytest.raises(WrongInput, match=r"^signature\.json"):
        verify(place / "one", key=place / "owner.pub.pem")


def test_folder_without_a_signature_is_not_valid_for_a_key(place: Path) -> None:
    (place / "one" / "signature.json").unlink()
    assert verify(place / "one", key=place / "owner.pub.pem").problems == [
        "expected a signature of this key in signature.json, got none"
    ]


def test_signature_does_not_tell_the_place_of_the_closing_entry(place: Path) -> None:
    """Between other processes' entries it would tell how long a search took."""
    assert set(json.loads((place / "one" / "signature.json").read_text())) == {
        "format",
        "closing",
        "files",
        "release",
        "run",
        "signature",
    }


@pytest.mark.parametrize("key", ["rsa.pem", "owner.pub.pem", "locked.pem", LEDGER, "nothing.pem", "one"])
def test_unusable_key_is_refused_before_the_charge(place: Path, key: str) -> None:
    with pytest.raises(WrongInput, match="expected sign= as"):
        released(place, "three", sign=place / key)
    assert not (place / "three").exists()
    assert sum(entry.kind == "spend" for entry in Ledger.open(place / LEDGER).entries()) == 2


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such modes")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o606])
def test_private_key_that_others_can_open_is_warned_about(place: Path, mode: int) -> None:
    (place / "owner.pem").chmod(mode)
    with pytest.warns(UserWarning, match=r"other users can open the private key .*chmod 600"):
        released(place, "three", sign=place / "owner.pem", dry_run=True)
    said: list[str] = []
    released(place, "three", sign=place / "owner.pem", dry_run=True, say=said.append)
    assert any("other users can open the private key" in sentence for sentence in said)


def test_signature_without_a_folder_is_refused() -> None:
    with pytest.raises(WrongInput, match="expected out= with sign:"):
        fit("wisconsin", epsilon=1.0, learner="majority", sign="key.pem")


def test_signature_of_an_abandoned_run_is_not_left_to_the_next(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("privaware.workflow.run.staging.Staged.publish", stopped)
        with pytest.raises(KeyboardInterrupt):
            released(place, "three", sign=place / "owner.pem")
    assert (place / "three" / ".staged" / "signature.json").exists()
    (place / "three" / ".staged" / "model.json").write_text("damaged")
    released(place, "three")
    assert not (place / "three" / "signature.json").exists()
    assert verify(place / "three", ledger=place / LEDGER).bound


def test_run_that_resumes_with_its_key_is_signed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("privaware.workflow.run.signature.Signer.write", stopped)
        with pytest.raises(KeyboardInterrupt):
            released(place, "three", sign=place / "owner.pem")
    released(place, "three", sign=place / "owner.pem")
    verdict = verify(place / "three", ledger=place / LEDGER, key=place / "owner.pub.pem")
    assert (verdict.signed, verdict.bound) == (True, True), verdict.problems


@pytest.mark.parametrize("key", ["rsa.pub.pem", "owner.pem", "nothing.pem"])
def test_unusable_public_key_is_refused(place: Path, key: str) -> None:
    with pytest.raises(WrongInput, match="expected key= as"):
        verify(place / "one", key=place / key)


def test_missing_package_is_named_with_how_to_install_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(WrongInput, match=r"pip install 'privaware\[sign\]'"):
        released(place, "three", sign=place / "owner.pem")
    with pytest.raises(WrongInput, match=r"pip install 'privaware\[sign\]'"):
        verify(place / "one", key=place / "owner.pub.pem")
