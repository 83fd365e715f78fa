"""The wheel: small enough to download and to upload anywhere."""

from __future__ import annotations

import tomllib
import zlib
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGEST_WHEEL = 18_000_000
"""Bytes of the package in a wheel; 20 MB are promised."""


def test_compressed_package_stays_below_20_mb() -> None:
    package = ROOT / "privaware"
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["privaware"]
    files = {*package.rglob("*.py"), *(file for pattern in data for file in package.glob(pattern))}
    assert any(file.suffix == ".safetensors" for file in files)
    assert sum(len(zlib.compress(file.read_bytes())) for file in files) < LARGEST_WHEEL
