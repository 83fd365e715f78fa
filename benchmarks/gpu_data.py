"""Benchmark images as bytes from a folder that travelled: official files, or lossless sheets of CIFAR-10.

    python -m benchmarks.gpu_data --pack carry      # writes carry/one, carry/two, carry/three from $PRIVAWARE_DATA

A machine with an accelerator may have no network and take few bytes at a time: CIFAR-10 goes in two parts of sheets
(WebP without loss, 200 x 50 tiles), Fashion-MNIST and MNIST in a third. `load` reads them from one folder.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
from pathlib import Path

import numpy as np

from privaware.errors import WrongInput

BATCHES = (*(f"data_batch_{at}" for at in range(1, 6)), "test_batch")
RECORD = 1 + 3 * 32 * 32
ACROSS = 200


def load(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images (rows, channels, height, width) of bytes, their labels, and the same of the test part."""
    if name == "cifar10":
        parts = [_cifar(folder, batch) for batch in BATCHES]
        images, labels = (np.concatenate([part[i] for part in parts[:-1]]) for i in (0, 1))
        return images, labels, *parts[-1]
    at = folder / name
    train, test = ([_idx(at / f"{part}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")]
                   for part in ("train", "t10k"))  # fmt: skip
    return train[0][:, None], train[1].astype(np.int64), test[0][:, None], test[1].astype(np.int64)


def _idx(path: Path) -> np.ndarray:
    raw = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(raw, ">u4", count=raw[3], offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape([int(n) for n in shape])


def _cifar(folder: Path, batch: str) -> tuple[np.ndarray, np.ndarray]:
    official = folder / "cifar10" / "cifar-10-batches-bin" / f"{batch}.bin"
    if official.is_file():
        raw = np.fromfile(official, np.uint8).reshape(-1, RECORD)
        return raw[:, 1:].reshape(-1, 3, 32, 32), raw[:, 0].astype(np.int64)
    sheet = folder / "cifar10" / f"{batch}.webp"
    if not sheet.is_file():
        raise WrongInput(f"expected {batch}.bin or {batch}.webp under {folder / 'cifar10'}")
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    tiles = np.asarray(Image.open(sheet).convert("RGB"))
    down, across = tiles.shape[0] // 32, tiles.shape[1] // 32
    tiles = tiles.reshape(down, 32, across, 32, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, 32, 32)
    labels = np.load(folder / "cifar10" / f"{batch}.labels.npy")
    return tiles[: len(labels)], labels.astype(np.int64)


def pack(into: Path) -> None:
    """The three folders that travel, each below 64 MiB."""
    home = Path(os.environ["PRIVAWARE_DATA"])
    for part, batches in {"one": BATCHES[:3], "two": BATCHES[3:]}.items():
        folder = into / part / "cifar10"
        folder.mkdir(parents=True, exist_ok=True)
        for batch in batches:
            _sheet(home, batch, folder)
    for name in ("fashion_mnist", "mnist"):
        shutil.copytree(home / name, into / "three" / name, dirs_exist_ok=True)


def _sheet(home: Path, batch: str, folder: Path) -> None:
    if (folder / f"{batch}.webp").is_file():
        return
    from PIL import Image

    images, labels = _cifar(home, batch)
    np.save(folder / f"{batch}.labels.npy", labels.astype(np.uint8))
    tiles = images.reshape(-1, ACROSS, 3, 32, 32).transpose(0, 3, 1, 4, 2)
    picture = Image.fromarray(np.ascontiguousarray(tiles).reshape(-1, 32 * ACROSS, 3))
    picture.save(folder / f"{batch}.webp", lossless=True, quality=80, method=4)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pack", type=Path, required=True)
    pack(arguments.parse_args().pack)


if __name__ == "__main__":
    main()
