"""Labelled images on which no default was chosen, from Debian and npm packages.

    apt-get download fonts-aenigma fonts-noto-core wesnoth-1.16-data openclipart-png plasma-workspace-wallpapers \\
        asterisk-core-sounds-{en,es,fr,it,ru}-wav                  # each unpacked by `dpkg-deb -x FILE FOLDER`
    npm pack emoji-datasource-{apple,google,twitter,facebook}@16.0.0   # each unpacked into FOLDER/emoji-VENDOR

Images of one `group` are alike (one letter in a font, one emoji of several vendors, one recording), so a group is
either trained on or held out.
"""

from __future__ import annotations

import json
import unicodedata
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

MAX_IMAGES = 5_000
"""Largest number of images of a set."""
MAX_IMAGES_PER_GROUP = 24
"""Largest number of images of one group."""
SIDE = 32
"""Height and width of a colour image in pixels."""
GREY_SIDE = 28
"""Height and width of a grey image in pixels."""
LETTERS = "ABCDEFGHIJ"
SCRIPTS = {
    "Arabic": (0x621, 0x64A),
    "Bengali": (0x985, 0x9B9),
    "Devanagari": (0x905, 0x939),
    "Ethiopic": (0x1200, 0x123F),
    "Hebrew": (0x5D0, 0x5EA),
    "Khmer": (0x1780, 0x17B3),
    "Lao": (0xE81, 0xEC4),
    "Sinhala": (0xD85, 0xDC6),
    "Tamil": (0xB85, 0xBB9),
    "Thai": (0xE01, 0xE30),
    "Tibetan": (0xF40, 0xF6C),
}
"""The first and the last letter of each script."""
STYLES = ("Sans{}-Regular", "Sans{}-Bold", "Serif{}-Regular", "Serif{}-Bold")
VENDORS = ("apple", "google", "twitter", "facebook")
SECOND = 8_000
"""Number of samples in a second of a telephone recording."""
FRAME = 256
"""Number of samples in a frame of a spectrogram."""
HOP = 250
"""Number of samples between the starts of two frames."""
HIGHEST = 3_400
"""Highest frequency of a spectrogram in hertz."""
LOUDEST = 11.0
"""Decimal logarithm of the power that is drawn white."""
QUIETEST = 3.0
"""Decimal logarithm of the power that is drawn black."""
TILES = (24, 16)
RACES = (
    "drakes",
    "dunefolk",
    "dwarves",
    "elves-wood",
    "goblins",
    "human-loyalists",
    "human-magi",
    "human-outlaws",
    "monsters",
    "nagas",
    "orcs",
    "saurians",
    "undead",
    "undead-skeletal",
)
CLIPART = (
    "animals",
    "computer",
    "food",
    "geography",
    "office",
    "people",
    "recreation",
    "shapes",
    "signs_and_symbols",
    "tools",
    "transportation",
)
"""Folders with a hundred or more pictures."""
LARGEST_FILE = 200_000
"""Largest size of a file in bytes; a few pictures have hundreds of megapixels."""


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """One image as bytes: (height, width) if grey, else (height, width, 3)."""

    label: str
    group: str
    image: np.ndarray


Images = Iterator[tuple[str, str, Callable[[], np.ndarray]]]


def load(name: str, folder: Path) -> tuple[list[Labelled], list[Labelled]]:
    """Return training images and held-out images, at most `MAX_IMAGES` together, in a fixed random order.

    A fifth of the groups is held out.
    """
    chosen, held_out = sampled(READERS[name](folder), MAX_IMAGES, MAX_IMAGES_PER_GROUP)
    return [each for each in chosen if each.group not in held_out], [each for each in chosen if each.group in held_out]


def sampled(images: Images, most: int, from_a_group: int) -> tuple[list[Labelled], set[str]]:
    """Return at most `most` images, and `from_a_group` of a group, in a fixed random order, and the held-out groups."""
    rng = np.random.default_rng(0)
    every = sorted(images, key=lambda each: each[:2])
    chosen, taken = [], dict.fromkeys({group for _, group, _ in every}, 0)
    for at in rng.permutation(len(every)):
        label, group, draw = every[at]
        if taken[group] < from_a_group and len(chosen) < most:
            taken[group] += 1
            chosen.append(Labelled(label=label, group=group, image=draw()))
    groups = sorted({each.group for each in chosen})
    return chosen, {groups[at] for at in rng.permutation(len(groups))[: len(groups) // 5]}


def write(images: list[Labelled], folder: Path) -> None:
    """Write PNG files, with one sub-folder for each class."""
    from PIL import Image

    for at, each in enumerate(images):
        path = folder / each.label / f"{at:05}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(each.image).save(path)


def _letters(folder: Path) -> Images:
    """Yield the first ten capital letters in 465 display fonts."""
    for path in sorted((folder / "usr/share/fonts/truetype/aenigma").glob("*.ttf")):
        for letter in LETTERS:
            yield letter, path.stem, partial(_glyph, letter, path, 22, 0)


def _scripts(folder: Path) -> Images:
    """Yield letters of eleven scripts, slightly rotated and shifted; the label is the script."""
    for script, (first, last) in SCRIPTS.items():
        paths = [folder / f"usr/share/fonts/truetype/noto/Noto{style.format(script)}.ttf" for style in STYLES]
        for path in filter(Path.exists, paths):
            for code in range(first, last + 1):
                if unicodedata.category(chr(code)) == "Lo":
                    for seed in range(2):
                        yield script, chr(code), partial(_glyph, chr(code), path, 20, 4 * code + seed + 1)


def _glyph(letter: str, path: Path, size: int, seed: int) -> np.ndarray:
    """Draw a letter in white on black; a nonzero `seed` rotates, scales and shifts it."""
    from PIL import Image, ImageDraw, ImageFont

    rng = np.random.default_rng(seed)
    moved = rng.normal(0, 1.0, 2) if seed else np.zeros(2)
    size = round(size * np.exp(rng.normal(0, 0.15))) if seed else size
    image = Image.new("L", (GREY_SIDE, GREY_SIDE))
    font = ImageFont.truetype(str(path), size)
    left, top, right, bottom = font.getbbox(letter)
    at = ((GREY_SIDE - left - right) / 2 + moved[0], (GREY_SIDE - top - bottom) / 2 + moved[1])
    ImageDraw.Draw(image).text(at, letter, fill=255, font=font)
    return np.asarray(image.rotate(rng.normal(0, 8), Image.Resampling.BILINEAR) if seed else image)


def _speech(folder: Path) -> Images:
    """Yield spectrograms of one second of telephone prompts; the label is the language."""
    for path in sorted((folder / "usr/share/asterisk/sounds").glob("*_*_*/**/*.wav")):
        language = path.relative_to(folder / "usr/share/asterisk/sounds").parts[0][:2]
        with wave.open(str(path)) as file:
            seconds = file.getnframes() // SECOND
        if "silence" not in path.parts:
            for second in range(seconds):
                yield language, f"{language}/{path.stem}", partial(_spectrogram, path, second)


def _spectrogram(path: Path, second: int) -> np.ndarray:
    with wave.open(str(path)) as file:
        file.setpos(second * SECOND)
        sound = np.frombuffer(file.readframes(SECOND), dtype="<i2").astype(float)
    frames = np.stack([sound[at : at + FRAME] for at in range(0, SECOND - FRAME + 1, HOP)][: SIDE - 1])
    power = np.abs(np.fft.rfft(frames * np.hanning(FRAME), axis=1)) ** 2
    edges = np.linspace(1, HIGHEST * FRAME / SECOND, SIDE + 1).astype(int)
    bands = np.stack([power[:, low : high + 1].mean(1) for low, high in pairwise(edges)])
    levels = (np.log10(bands + 1) - QUIETEST) / (LOUDEST - QUIETEST)
    image = np.clip(255 * np.pad(levels, ((0, 0), (0, SIDE - levels.shape[1])), mode="edge"), 0, 255)
    return image[::-1].astype(np.uint8)


def _emoji(folder: Path) -> Images:
    """Yield emoji as four vendors draw them; the label is their category."""
    for vendor in VENDORS:
        package = folder / f"emoji-{vendor}/package"
        for each in json.loads((package / "emoji.json").read_text(encoding="utf-8")):
            path = package / f"img/{vendor}/64" / each["image"]
            if each["category"] != "Component" and path.exists():
                yield each["category"], each["short_name"], partial(pictured, path)


def _sprites(folder: Path) -> Images:
    """Yield frames of the units of a game; the label is the race, and the frames of one unit are a group."""
    units = folder / "usr/share/games/wesnoth/1.16/data/core/images/units"
    for path in sorted(units.glob("*/**/*.png")):
        race, stem = path.relative_to(units).parts[0], path.stem.split("-")[0]
        if race in RACES:
            yield race, f"{race}/{stem}", partial(pictured, path)


def _clipart(folder: Path) -> Images:
    """Yield clip art; the label is its folder."""
    root = folder / "usr/share/openclipart/png"
    for path in sorted(root.glob("*/**/*.png")):
        if path.relative_to(root).parts[0] in CLIPART and path.stat().st_size <= LARGEST_FILE:
            yield path.relative_to(root).parts[0], str(path.relative_to(root)), partial(pictured, path)


def pictured(path: Path, box: tuple[int, int, int, int] | None = None) -> np.ndarray:
    """Return a drawing, or the part inside `box` (left, top, right, bottom), on white, fitted into a square."""
    from PIL import Image, ImageOps

    with Image.open(path) as opened:
        drawing = ImageOps.contain(opened.convert("RGBA").crop(box), (SIDE, SIDE), Image.Resampling.BOX)
    ground = Image.new("RGBA", (SIDE, SIDE), "white")
    ground.alpha_composite(drawing, ((SIDE - drawing.width) // 2, (SIDE - drawing.height) // 2))
    return np.asarray(ground.convert("RGB"))


def _photographs(folder: Path) -> Images:
    """Yield tiles of photographs; the label is the photograph."""
    for path in sorted((folder / "usr/share/wallpapers").glob("*/contents/images/2560x1600.jpg")):
        tiles = _tiles(path)
        for at in range(len(tiles)):
            yield path.parts[-4], f"{path.parts[-4]} {at}", partial(tiles.__getitem__, at)


def _tiles(path: Path) -> Any:
    from PIL import Image

    across, down = TILES
    with Image.open(path) as opened:
        image = np.asarray(opened.convert("RGB").resize((across * SIDE, down * SIDE), Image.Resampling.BOX))
    return image.reshape(down, SIDE, across, SIDE, 3).swapaxes(1, 2).reshape(-1, SIDE, SIDE, 3)


READERS: dict[str, Callable[[Path], Images]] = {
    "letters": _letters,
    "scripts": _scripts,
    "speech": _speech,
    "emoji": _emoji,
    "sprites": _sprites,
    "clipart": _clipart,
    "photographs": _photographs,
}
