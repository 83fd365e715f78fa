"""An Ed25519 signature over the files that a run released.

Signed are the kind of release, the name of the run, the hash of its closing ledger entry, and the names and hashes of
its files. Signatures of format 1 sign neither kind nor run. The signature is in `signature.json` in the folder of the
result. With the public key, anyone can check the folder without the ledger. The position of the closing entry in the
ledger is not signed: relative to other entries it would reveal how long the run took.

`RELEASE_FILES` lists the files of each kind of release. A ledger or a signature proves that a release is unchanged only
if it names all of them. No two kinds share a file, so the file names identify the kind of a release whose closing entry
does not name its kind.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privaware._files import atomic_write
from privaware.errors import WrongInput, warn_caller
from privaware.ledger import Entry
from privaware.model import TENSORS

__all__ = ["SIGNATURE", "Signature", "Signer", "read_signature"]

RELEASE_FILES: dict[str, tuple[str, ...]] = {
    "model": ("model.json", TENSORS, "report.html"),
    "selection": ("selection.json",),
    "crossover": ("crossover.json",),
    "audit": ("audit.json",),
    "pilot": ("pilot.json",),
}
"""Files of each kind of release that has files; closing entries of the ledger name the same kinds."""
BESIDE_A_MODEL = ("audit.json",)
"""Files of other releases that may be in a model folder, because `privaware audit MODEL` writes them there."""


def kind_of_release(files: Collection[str]) -> str | None:
    """Return the first kind of release whose files are all in `files`, or None if `files` is complete for no kind."""
    return next((kind for kind, names in RELEASE_FILES.items() if set(names) <= set(files)), None)


def other_release_files(names: Iterable[str], kind: str) -> list[str]:
    """Return the `names` that could be mistaken for a file of a release, and so must not be in the folder.

    Parameters
    ----------
    names
        The names of files in the folder that neither a ledger nor a signature names.
    kind
        The kind of release in the folder.

    Returns
    -------
    list of str
        The names that are in `RELEASE_FILES` for any kind of release, or differ from one only in upper and lower case.
        In a model folder the names in `BESIDE_A_MODEL` are allowed and are not returned.
    """
    allowed = BESIDE_A_MODEL if kind == "model" else ()
    taken = {name for files in RELEASE_FILES.values() for name in files}
    return [name for name in names if name.casefold() in taken and name not in allowed]


SIGNATURE = "signature.json"
FORMAT = 2
"""Version of the file format of signatures."""
WITHOUT_KIND = 1
"""Format of signatures that name neither the kind of release nor the run."""
MAKE_KEY = {"private": "genpkey -algorithm ed25519 -out key.pem", "public": "pkey -in key.pem -pubout -out public.pem"}
"""Arguments of `openssl` that make each kind of key."""
MAX_FILE_BYTES = 100_000
"""Largest size in bytes of a key file or a signature."""


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A signature and what it signs.

    `closing` is the hash of the closing ledger entry, and `files` has the SHA-256 hash of each file by name. `release`
    (the kind) and `run` are None in format 1, which does not sign them.
    """

    closing: str
    files: dict[str, str]
    release: str | None
    run: str | None
    signature: bytes = field(repr=False)

    @property
    def message(self) -> bytes:
        """The bytes that are signed: a line with the format, then the facts as JSON with sorted keys."""
        facts: dict[str, Any] = {"closing": self.closing, "files": self.files}
        if self.release is None:
            return b"privaware release\n" + _spelt(facts)
        return b"privaware release, format 2\n" + _spelt({**facts, "release": self.release, "run": self.run})

    @classmethod
    def parsed(cls, content: Any) -> Signature:
        """Read a signature from `content`, the parsed JSON of `signature.json`.

        Raise `WrongInput` for another format, and `KeyError`, `TypeError` or `ValueError` for missing or wrong entries.
        """
        if content["format"] not in (WITHOUT_KIND, FORMAT):
            raise WrongInput(f"{SIGNATURE}: expected format {FORMAT}, got another; use a matching privaware")
        signs_kind = content["format"] == FORMAT
        release, run = (content["release"], content["run"]) if signs_kind else (None, None)
        files, closing = dict(content["files"]), content["closing"]
        if not all(isinstance(name, str) and _is_hash(digest) for name, digest in files.items()):
            raise ValueError("files")
        if not _is_hash(closing) or (signs_kind and not (release in RELEASE_FILES and isinstance(run, str))):
            raise ValueError("closing, release or run")
        signature = bytes.fromhex(content["signature"])
        return cls(closing=closing, files=files, release=release, run=run, signature=signature)

    def is_by(self, key: str | Path) -> bool:
        """Whether the owner of the public key in the file `key` made this signature.

        A file without such a key raises `WrongInput`.
        """
        from cryptography.exceptions import InvalidSignature

        public = _read_key("--key", "public", key)
        try:
            public.verify(self.signature, self.message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class Signer:
    """Signs releases with an Ed25519 private key."""

    key: Any = field(repr=False)

    @classmethod
    def of(cls, path: str | Path, say: Callable[[str], object] | None = None) -> Signer:
        """Read the private key from a PEM file; raise `WrongInput` for any other content.

        Parameters
        ----------
        path
            The file with the private key.
        say
            A function that is told if other users can read the key. Without it, a warning is issued.
        """
        key = _read_key("--sign", "private", path)
        if os.name == "posix" and os.stat(path).st_mode & (stat.S_IRWXG | stat.S_IRWXO):  # Windows has no such mode
            sentence = (
                f"other users can open the private key {str(path)!r:.120}, and sign with it; run `chmod 600` on it"
            )
            if say is None:
                warn_caller(sentence)
            else:
                say(sentence)
        return cls(key)

    def write(self, folder: Path, closing: Entry) -> None:
        """Write the signature of a closed run to `folder`, beside the files that its closing entry names.

        Raise `RuntimeError` if `closing` does not name all files of its kind of release.
        """
        files = dict(closing.files or {})
        release = closing.release or kind_of_release(files)
        if release is None or not set(RELEASE_FILES[release]) <= set(files):
            raise RuntimeError("expected a closing entry with all files of its release, got another")
        facts = {"closing": closing.hash, "files": files, "release": release, "run": closing.run}
        unsigned = Signature(**facts, signature=b"")  # type: ignore[arg-type]
        content = {"format": FORMAT, **facts, "signature": self.key.sign(unsigned.message).hex()}
        atomic_write(folder / SIGNATURE, json.dumps(content, indent=1).encode())


def read_signature(folder: Path) -> Signature | None:
    """Read the signature in a folder, or return None; raise `WrongInput` if it is damaged."""
    path = folder / SIGNATURE
    if not path.is_file():
        return None
    try:
        return Signature.parsed(json.loads(_beginning(path).decode("utf-8")))
    except WrongInput:
        raise
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise WrongInput(f"{SIGNATURE} is damaged: expected it as it was written; restore the folder") from None
    except OSError as problem:
        raise WrongInput(f"cannot read {path}: {problem.strerror or problem}") from None


def _spelt(facts: dict[str, Any]) -> bytes:
    return json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _beginning(path: str | Path) -> bytes:
    """Read at most `MAX_FILE_BYTES` bytes of a file; a longer file is cut off and so does not parse."""
    with open(path, "rb") as file:
        return file.read(MAX_FILE_BYTES)


def _read_key(option: str, kind: str, path: str | Path) -> Any:
    """Return the Ed25519 key in the PEM file that `option` names; `kind` is "private" or "public".

    Raise `WrongInput` if there is no such key, if it has a password, or if cryptography is not installed.
    """
    try:
        from cryptography.hazmat.primitives import serialization as pem
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise WrongInput(
            f"{option} needs the package cryptography; install it with `pip install 'privaware[sign]'`"
        ) from None
    wrong = WrongInput(
        f"expected {option} as an ed25519 {kind} key in a PEM file, got another in {str(path)!r:.120}; "
        f"make one with `openssl {MAKE_KEY[kind]}`"
    )
    private = kind == "private"
    try:
        content = _beginning(path)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise WrongInput(f"expected {option} as a key file, but {str(path)!r:.120} cannot be read: {reason}") from None
    try:
        key: Any = pem.load_pem_private_key(content, password=None) if private else pem.load_pem_public_key(content)
    except Exception as problem:  # cryptography raises many kinds of errors for damaged keys
        if private and isinstance(problem, TypeError):
            raise WrongInput(f"expected {option} as a key without a password, but {str(path)!r} has one") from None
        raise wrong from None
    if not isinstance(key, ed25519.Ed25519PrivateKey if private else ed25519.Ed25519PublicKey):
        raise wrong
    return key
