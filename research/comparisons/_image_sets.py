"""Small image sets for the study of representations: samples of built-in sets, and scripts drawn from system fonts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

ROWS = 2000
"""Number of images of a grey set."""
COLOUR_ROWS = 1200
"""Number of images of a colour set."""
SCRIPTS = {"georgian": (0x10D0, 10, 1.6), "armenian": (0x561, 26, 1.2), "cyrillic": (0x430, 32, 1.0)}
"""The first letter, the number of letters, and the strength of distortion of each script."""
BUILT_IN = ("mnist", "fashion_mnist", "svhn", "cifar10")
GREY = {"grey_cifar10": "cifar10"}
"""Photographs without colours, with the set that they come from."""
LUMA = (0.299, 0.587, 0.114)
FONTS = Path("/usr/share/fonts/truetype/dejavu")
FACES = ("DejaVuSans", "DejaVuSerif", "DejaVuSans-Bold", "DejaVuSerif-Italic", "DejaVuSerifCondensed-BoldItalic")
SIDE = 28


def write(folder: Path) -> None:
    """Write a file of images (rows, channels, height, width) as bytes and class codes for each set.

    Keep existing files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*SCRIPTS, *BUILT_IN, *GREY, "digits"):
        file = folder / f"{name}.npz"
        if not file.exists():
            x, y = letters(*SCRIPTS[name]) if name in SCRIPTS else digits() if name == "digits" else sample(name)
            np.savez_compressed(file, x=x, y=y.astype(np.uint8))


def sample(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of the training part of a built-in set, possibly without colours."""
    from privaware import datasets

    train = datasets.load(GREY.get(name, name)).train
    rows = ROWS if train.schema.shape[0] == 1 or name in GREY else COLOUR_ROWS
    chosen = np.random.default_rng(3).permutation(len(train))[:rows]
    x = train.x[chosen]
    x = np.einsum("nchw,c->nhw", x, LUMA)[:, None] if name in GREY else x
    return np.round(x * 255).astype(np.uint8), train.y[chosen]


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return the 8 x 8 digits of scikit-learn."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    order = np.random.default_rng(1).permutation(len(loaded.target))
    return np.round(loaded.images[order, None] * 255 / 16).astype(np.uint8), loaded.target[order]


def letters(first: int, count: int, distortion: float, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Return distorted letters in several faces, sizes and weights, some with noise."""
    from PIL import ImageFont

    rng = np.random.default_rng(first)
    fonts = [ImageFont.truetype(str(FONTS / f"{face}.ttf"), size) for face in FACES for size in (18, 21, 24)]
    y = rng.integers(count, size=rows)
    images = [_letter(chr(first + code), fonts[rng.integers(len(fonts))], distortion, rng) for code in y]
    return np.stack(images)[:, None], y


def _letter(letter: str, font: object, distortion: float, rng: np.random.Generator) -> np.ndarray:
    from PIL import Image, ImageDraw, ImageFilter

    image = Image.new("L", (2 * SIDE, 2 * SIDE))
    ImageDraw.Draw(image).text((SIDE, SIDE), letter, fill=255, font=font, anchor="mm")  # type: ignore[arg-type]
    angle, shear = rng.normal(0, 0.25 * distortion, 2)
    stretch = np.diag(np.exp(rng.normal(0, 0.18 * distortion, 2)))
    stretch[0, 1] = shear
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ stretch
    shift = np.full(2, SIDE) - turn @ np.full(2, SIDE) + rng.normal(0, 1.5 * distortion, 2)
    affine = (turn[0, 0], turn[0, 1], shift[0], turn[1, 0], turn[1, 1], shift[1])
    image = image.transform(image.size, Image.Transform.AFFINE, affine, Image.Resampling.BILINEAR)
    if rng.random() < 0.5:
        image = image.filter(ImageFilter.MaxFilter(3) if rng.random() < 0.7 else ImageFilter.MinFilter(3))
    image = image.filter(ImageFilter.GaussianBlur(0.3 + 0.7 * rng.random()))
    inner = np.asarray(image, float)[SIDE // 2 : -SIDE // 2, SIDE // 2 : -SIDE // 2] * rng.uniform(0.5, 1)
    noisy = inner + (rng.random() < 0.5) * rng.normal(0, 12, inner.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8)
