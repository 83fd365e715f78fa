"""A signature over what a run released: ed25519, over the hash of its closing ledger entry and the hashes of its files.

`signature.json` stands in the folder of the result. Who has the public key can check the folder with it, without the
ledger. The place of the closing entry in the ledger is no part of it: between other entries it would tell how long the
run took.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privaware._files import atomic_write
from privaware.errors import WrongInput
from privaware.ledger import Entry

__all__ = ["SIGNATURE", "Signature", "Signer", "read_signature"]

SIGNATURE = "signature.json"
FORMAT = 1
SMALL = 100_000
"""No key file is longer than so many bytes."""


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What was signed: the hash of a closing entry and those of the files it binds, by name."""

    closing: str
    files: dict[str, str]
    signature: bytes = field(repr=False)

    @property
    def message(self) -> bytes:
        """The bytes that are signed."""
        return _message(self.closing, self.files)

    def is_by(self, key: str | Path) -> bool:
        """Whether the owner of the public key in this file signed it."""
        from cryptography.exceptions import InvalidSignature

        public = _public_key(key)
        try:
            public.verify(self.signature, self.message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class Signer:
    """Signs with an ed25519 private key."""

    key: Any = field(repr=False)

    @classmethod
    def of(cls, path: str | Path) -> Signer:
        """The key in a PEM file; anything else is refused with a sentence."""
        serialization, ed25519 = _cryptography("--sign")
        content = _key_file("--sign", path)
        try:
            key = serialization.load_pem_private_key(content, password=None)
        except TypeError:
            raise WrongInput(f"expected --sign as a key without a password, got one with: {str(path)!r}") from None
        except Exception:  # the package's own errors for damaged keys are many
            raise _wrong_key("--sign", "private", path) from None
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise _wrong_key("--sign", "private", path)
        return cls(key)

    def write(self, folder: Path, closing: Entry) -> None:
        """Signs the closing entry of a run, beside the files that it binds."""
        files = dict(closing.files or {})
        signature = self.key.sign(_message(closing.hash, files))
        content = {"format": FORMAT, "closing": closing.hash, "files": files, "signature": signature.hex()}
        atomic_write(folder / SIGNATURE, json.dumps(content, indent=1).encode())


def read_signature(folder: Path) -> Signature | None:
    """The signature in a folder, if there is one; a damaged one is refused with a sentence."""
    path = folder / SIGNATURE
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_bytes().decode("utf-8"))
        if content["format"] != FORMAT:
            raise WrongInput(f"{SIGNATURE}: expected format {FORMAT}, got another; use a matching privaware")
        files = {str(name): str(digest) for name, digest in content["files"].items()}
        return Signature(closing=str(content["closing"]), files=files, signature=bytes.fromhex(content["signature"]))
    except WrongInput:
        raise
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise WrongInput(f"{SIGNATURE} is damaged: expected it as `--sign` wrote it; restore the folder") from None
    except OSError as problem:
        raise WrongInput(f"cannot read {path}: {problem.strerror or problem}") from None


def _message(closing: str, files: dict[str, str]) -> bytes:
    facts = {"closing": closing, "files": files}
    return b"privaware release\n" + json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()


def _public_key(path: str | Path) -> Any:
    serialization, ed25519 = _cryptography("--key")
    content = _key_file("--key", path)
    try:
        key = serialization.load_pem_public_key(content)
    except Exception:  # as above
        raise _wrong_key("--key", "public", path) from None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise _wrong_key("--key", "public", path)
    return key


def _key_file(option: str, path: str | Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(SMALL)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise WrongInput(f"expected {option} as a key file, but {str(path)!r:.120} cannot be read: {reason}") from None


def _wrong_key(option: str, kind: str, path: str | Path) -> WrongInput:
    make = "openssl genpkey -algorithm ed25519 -out key.pem"
    if kind == "public":
        make = "openssl pkey -in key.pem -pubout -out public.pem"
    return WrongInput(
        f"expected {option} as an ed25519 {kind} key in a PEM file, got another in {str(path)!r:.120}; "
        f"make one with `{make}`"
    )


def _cryptography(option: str) -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise WrongInput(
            f"{option} needs the package cryptography; install it with `pip install 'privaware[sign]'`"
        ) from None
    return serialization, ed25519
