"""Files that differ from the published ones are refused with one sentence; classes are never inferred."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from privaware import datasets, registry
from privaware.datasets import purchase100
from privaware.errors import WrongInput

FROM_FILES = [name for name in registry.names("datasets") if datasets.source(name).files]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRIVAWARE_DATA", str(tmp_path))
    monkeypatch.setenv("PRIVAWARE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def write(folder: Path, name: str, body: bytes) -> None:
    for file in datasets.source(name).files:
        path = folder / name / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)


def patients(rows: int, label: str, last: str = "no") -> bytes:
    line = f"{label},40-49,premeno,20-24,0-2,?,2,left,left_low,{last}\n"
    return (line * rows).encode()


def test_p37_classes_are_declared_even_if_one_never_occurs(folder: Path) -> None:
    write(folder, "breast_cancer", patients(286, "recurrence-events"))
    data = datasets.load("breast_cancer")
    assert data.schema.classes == ("no-recurrence-events", "recurrence-events")
    assert set(data.train.y) == {1}


def test_p12_schema_does_not_depend_on_the_rows(folder: Path) -> None:
    before = datasets.schema("breast_cancer")
    for label in before.classes:
        write(folder, "breast_cancer", patients(286, label))
        assert datasets.load("breast_cancer").schema == before


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (patients(285, "recurrence-events"), "breast_cancer: expected 286 rows as published, got 285"),
        (patients(287, "recurrence-events"), "breast_cancer: expected 286 rows as published, got 287"),
        (patients(286, "relapse"), "breast_cancer: .*expected one of the declared classes"),
        (patients(286, "recurrence-events", "maybe"), "breast_cancer: .*column 'irradiat', row 1: expected a declared"),
        (b"", "breast_cancer: "),
        (b"\xff\xfe\x00", "breast_cancer: "),
    ],
)
def test_table_other_than_the_published_one_is_refused(folder: Path, body: bytes, message: str) -> None:
    write(folder, "breast_cancer", body)
    with pytest.raises(WrongInput, match=message) as caught:
        datasets.load("breast_cancer")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"other bytes",
        gzip.compress(b"", mtime=0),
        gzip.compress(b"\0\0\x08\x03\0\0", mtime=0),
        # A time stamp in which the parser of a table counts fields.
        gzip.compress(b"", mtime=int.from_bytes(b"\r,a,", "little")),
    ],
    ids=["empty", "other bytes", "empty gzip", "truncated gzip", "gzip like a table"],
)
@pytest.mark.parametrize("name", FROM_FILES)
def test_corrupt_files_are_refused_with_one_sentence(folder: Path, name: str, body: bytes) -> None:
    write(folder, name, body)
    with pytest.raises(WrongInput, match=f"^{name}: ") as caught:
        datasets.load(name)
    assert "\n" not in str(caught.value)


def idx(*shape: int, fill: int = 0) -> bytes:
    head = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes()
    return gzip.compress(head + bytes([fill]) * int(np.prod(shape)), 1)


def test_fewer_images_than_published_are_refused(folder: Path) -> None:
    write(folder, "mnist", idx(3))
    for part in ("train", "t10k"):
        (folder / "mnist" / f"{part}-images-idx3-ubyte.gz").write_bytes(idx(3, 28, 28))
    with pytest.raises(WrongInput, match="mnist: expected 60000 training rows as published, got 3"):
        datasets.load("mnist")


def test_images_of_another_size_or_label_are_refused(folder: Path) -> None:
    for part in ("train", "t10k"):
        write(folder, "mnist", idx(3))
        (folder / "mnist" / f"{part}-images-idx3-ubyte.gz").write_bytes(idx(3, 8, 8))
    with pytest.raises(WrongInput, match=r"expected images of shape \[1, 28, 28\]"):
        datasets.load("mnist")
    (folder / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(idx(3, 28, 28))
    (folder / "mnist" / "train-labels-idx1-ubyte.gz").write_bytes(idx(3, fill=10))
    with pytest.raises(WrongInput, match="expected labels 0 to 9"):
        datasets.load("mnist")


def test_svhn_label_zero_is_refused(folder: Path) -> None:
    from scipy.io import savemat

    write(folder, "svhn", b"")
    pixels = np.zeros((32, 32, 3, 2), np.uint8)
    savemat(folder / "svhn" / "train_32x32.mat", {"X": pixels, "y": np.array([[0], [1]], np.uint8)})
    with pytest.raises(WrongInput, match="labels 1 to 10"):
        datasets.load("svhn")


def test_purchase100_reads_the_authors_format(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purchase100, "ROWS", 6)
    facts = replace(purchase100.source.facts, rows=4)
    monkeypatch.setattr(purchase100, "source", replace(purchase100.source, facts=facts, test_rows=2))
    rows = (np.arange(6 * 600).reshape(6, 600) % 7 == 0).astype(int)
    lines = [",".join(map(str, [at * 19 + 1, *row])) for at, row in enumerate(rows)]
    (folder / "dataset_purchase").write_text("\n".join(lines))
    train, test = purchase100.source.read(folder, purchase100.source.facts)
    both = {tuple(x): y for part in (train, test) for x, y in zip(part.x, part.y, strict=True)}
    assert both == {tuple(map(float, row)): at * 19 for at, row in enumerate(rows)}
