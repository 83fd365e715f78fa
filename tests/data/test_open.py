"""Inputs that expand far beyond their size are refused with one sentence before they fill the memory."""

from __future__ import annotations

import bz2
import gzip
import io
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from privaware.data import _open, read
from privaware.data._open import Expansion
from privaware.errors import WrongInput

BOMB = b"a,b\n" + b"1,2\n" * 2**20
"""A table of 4 MiB that gzip makes 1,000 times smaller."""
SENTENCE = r"expands to more than 200 times its size.*PRIVAWARE_EXPAND_GIB"


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bombs of a few MiB are enough."""
    monkeypatch.setattr(_open, "FREE", 2**20)
    monkeypatch.setattr(_open, "CHUNK", 2**18)


def gz(path: Path, content: bytes = BOMB, name: str = "bomb.csv.gz") -> Path:
    (path / name).write_bytes(gzip.compress(content))
    return path / name


def gz_json(path: Path) -> Path:
    return gz(path, b'{"a": 1}\n' * 2**18, "bomb.jsonl.gz")


def gz_arff(path: Path) -> Path:
    return gz(path, b"@relation r\n@attribute a numeric\n@data\n" + b"1\n" * 2**20, "bomb.arff.gz")


def bz(path: Path) -> Path:
    (path / "bomb.csv.bz2").write_bytes(bz2.compress(BOMB[: 2**21], 1))
    return path / "bomb.csv.bz2"


def zst(path: Path) -> Path:
    pa = pytest.importorskip("pyarrow")
    (path / "bomb.csv.zst").write_bytes(pa.compress(BOMB, codec="zstd", asbytes=True))
    return path / "bomb.csv.zst"


def archive(path: Path, member: str = "inner.csv", content: bytes = BOMB, name: str = "bomb.zip") -> Path:
    with zipfile.ZipFile(path / name, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(member, content)
    return path / name


def npz(path: Path) -> Path:
    np.savez_compressed(path / "bomb.npz", x=np.zeros((2**19, 8), dtype=np.uint8))
    return path / "bomb.npz"


def xlsx(path: Path) -> Path:
    pytest.importorskip("openpyxl")
    return archive(path, "xl/sharedStrings.xml", b"<si/>" * 2**20, "bomb.xlsx")


def folder_of_images(path: Path) -> Path:
    """Black images of 1,000 x 1,000 pixels, each of them 1,000 bytes."""
    image = pytest.importorskip("PIL.Image")
    for label in ("no", "yes"):
        (path / "images" / label).mkdir(parents=True)
        for number in range(4):
            image.new("L", (1000, 1000)).save(path / "images" / label / f"{number}.png")
    return path / "images"


@pytest.mark.parametrize("bomb", [gz, gz_json, gz_arff, bz, zst, archive, npz, xlsx, folder_of_images])
@pytest.mark.usefixtures("small_limit")
def test_p53_bomb_is_refused_in_one_sentence(tmp_path: Path, bomb: Callable[[Path], Path]) -> None:
    with pytest.raises(WrongInput, match=SENTENCE) as refused:
        read(bomb(tmp_path))
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.usefixtures("small_limit")
def test_zip_that_declares_a_smaller_size_is_refused(tmp_path: Path) -> None:
    """Python reads no more than the declared size, and finds that the check sum is another."""
    path = archive(tmp_path)
    content = path.read_bytes().replace(struct.pack("<L", len(BOMB)), struct.pack("<L", 1000))
    path.write_bytes(content)
    with pytest.raises(WrongInput, match=r"^expected 'bomb\.zip' as CSV"):
        read(path)


def test_nested_archives_are_not_opened(tmp_path: Path) -> None:
    inner = archive(tmp_path).read_bytes()
    for outer in (archive(tmp_path, "inner.zip", inner, "outer.zip"), gz(tmp_path, inner, "outer.zip.gz")):
        with pytest.raises(WrongInput, match=r"^expected \.csv.*convert it to one of these"):
            read(outer)
    with pytest.raises(WrongInput, match=r"^expected \.csv"):
        read(gz(tmp_path, gzip.compress(BOMB), "twice.csv.gz.gz"))


def test_archive_of_several_bombs_is_not_opened(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "many.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for number in range(3):
            file.writestr(f"{number}.csv", BOMB)
    with pytest.raises(WrongInput, match=r"expected one file in 'many\.zip', got 3"):
        read(tmp_path / "many.zip")


def test_bomb_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    """An array of 320 MiB in a file of 1.4 MiB."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (320 * 2**10, 1024)})
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("x.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for _ in range(20):
            member.write(bytes(2**24))
    tracemalloc.start()
    with pytest.raises(WrongInput, match=SENTENCE):
        read(tmp_path / "bomb.npz")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**24


@pytest.mark.usefixtures("small_limit")
def test_variable_allows_what_the_owner_trusts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = gz(tmp_path)
    monkeypatch.setenv("PRIVAWARE_EXPAND_GIB", "0.01")
    frame = read(path).frame
    assert frame is not None
    assert len(frame) == 2**20
    monkeypatch.setenv("PRIVAWARE_EXPAND_GIB", "0.002")
    with pytest.raises(WrongInput, match=r"more than the 0\.002 GiB that PRIVAWARE_EXPAND_GIB allows"):
        read(path)
    for wrong in ("much", "-1", "nan", "0"):
        monkeypatch.setenv("PRIVAWARE_EXPAND_GIB", wrong)
        with pytest.raises(WrongInput, match="expected PRIVAWARE_EXPAND_GIB as a number of GiB > 0"):
            read(path)


@pytest.mark.parametrize(
    ("size", "expanded"),
    [(10, 2**28), (2**22, 200 * 2**22), (2**30, 20 * 2**30), (2**35, 20 * 2**35), (None, 2**34)],
    ids=["tiny", "medium", "large", "huge", "pipe"],
)
def test_limit_follows_the_size(size: int | None, expanded: int) -> None:
    Expansion("people.csv.gz", size).add(expanded)
    with pytest.raises(WrongInput, match="expands to more than"):
        Expansion("people.csv.gz", size).add(expanded + 1)


def test_image_of_too_many_pixels_is_refused_by_its_header(tmp_path: Path) -> None:
    pytest.importorskip("PIL")

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">L", zlib.crc32(kind + content))
        return struct.pack(">L", len(content)) + kind + content + check

    header = chunk(b"IHDR", struct.pack(">LLBBBBB", 100_000, 100_000, 8, 0, 0, 0, 0))
    content = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
    for label in ("no", "yes"):
        (tmp_path / label).mkdir()
        (tmp_path / label / "bomb.png").write_bytes(content)
    with pytest.raises(WrongInput, match=r"'bomb\.png' has more pixels than Pillow opens.*resize it"):
        read(tmp_path)
