"""Images of other kinds to choose on, made from packages of Debian that no unseen set is made of.

    apt-get download widelands-data oxygen-icon-theme gnome-icon-theme tango-icon-theme unifont fonts-unifont \\
        klettres-data ktuberling-data                              # each unpacked by `dpkg-deb -x FILE FOLDER`

Images of one group are alike: a group is either learnt from or held out. Recordings need `pip install soundfile`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from research.comparisons._unseen_image_sets import GREY_SIDE, SIDE, Images, pictured, sampled

MOST, FROM_A_GROUP = 2_500, 12
TRIBES = ("amazons", "atlanteans", "barbarians", "empire", "frisians")
PLACES = {"workers": "tribes/workers", "sites": "tribes/buildings/productionsites"}
SHEET = re.compile(r"(\w+) = \{((?:[^{}]|\{[^{}]*\})*)\}")
"""The name of an animation and what is said of it."""
THEMES = {"oxygen": "base/48x48", "gnome": "48x48", "Tango": "32x32"}
CONTEXTS = ("actions", "apps", "categories", "devices", "emblems", "emotes", "mimetypes", "places", "status")
ALPHABETS = {
    "Greek": (0x391, 0x3C9),
    "Cyrillic": (0x410, 0x44F),
    "Armenian": (0x531, 0x586),
    "Georgian": (0x10A0, 0x10F0),
    "Cherokee": (0x13A0, 0x13F4),
    "Aboriginal": (0x1401, 0x1676),
    "Runic": (0x16A0, 0x16EA),
    "Mongolian": (0x1820, 0x1877),
    "Hiragana": (0x3041, 0x3096),
    "Katakana": (0x30A1, 0x30FA),
    "Han": (0x4E00, 0x4F00),
    "Vai": (0xA500, 0xA60C),
}
"""The first and the last letter of each."""
LANGUAGES = ("ca", "da", "es", "fr", "lt", "ml", "ru", "uk")
RATE, FRAME, HOP, HIGHEST = 8_000, 256, 250, 3_400
LOUDEST, QUIETEST = 2.5, -4.5
"""Decimal logarithms of the power of tones of recordings in [-1, 1]."""


def load(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images (rows, channels, height, width) of bytes, class codes, and which fifth of the groups is held out."""
    chosen, held_out = sampled(READERS[name](folder), MOST, FROM_A_GROUP)
    labels = sorted({each.label for each in chosen})
    images = [each.image if each.image.ndim == 3 else each.image[:, :, None] for each in chosen]
    y = np.array([labels.index(each.label) for each in chosen])
    return np.stack(images).transpose(0, 3, 1, 2), y, np.array([each.group in held_out for each in chosen])


def _workers(folder: Path) -> Images:
    """Frames of workers and buildings of a game, to be told by kind and tribe."""
    from PIL import Image

    data = folder / "usr/share/games/widelands/data"
    for kind, place in PLACES.items():
        for path in sorted(data.glob(f"{place}/*/*/*_1.png")):
            tribe, unit = path.parts[-3:-1]
            frames, columns, rows = _sheet(path)
            if tribe in TRIBES and frames:
                with Image.open(path) as opened:
                    width, height = opened.width // columns, opened.height // rows
                for at in range(0, frames, max(frames // 4, 1)):
                    left, top = width * (at % columns), height * (at // columns)
                    box = (left, top, left + width, top + height)
                    yield f"{kind}-{tribe}", f"{kind}/{tribe}/{unit}", partial(pictured, path, box)


def _sheet(path: Path) -> tuple[int, int, int]:
    """Frames, columns and rows of a sheet of sprites; zeros where the game does not say them."""
    script = (path.parent / "init.lua").read_text(encoding="utf-8")
    for name, said in SHEET.findall(script):
        numbers = dict(re.findall(r"(frames|columns|rows) = (\d+)", said))
        if name == path.stem.split("_")[0] and len(numbers) == len(("frames", "columns", "rows")):
            return int(numbers["frames"]), int(numbers["columns"]), int(numbers["rows"])
    return 0, 0, 0


def _icons(folder: Path) -> Images:
    """Icons of three desktops, to be told by context; those of one name are a group."""
    for theme, place in THEMES.items():
        for context in CONTEXTS:
            for path in sorted((folder / "usr/share/icons" / theme / place / context).glob("*.png")):
                if path.exists():  # some are links into another package
                    yield context, "-".join(path.stem.split("-")[:2]), partial(pictured, path)


def _alphabets(folder: Path) -> Images:
    """Letters of twelve scripts, a little turned and moved, to be told by their script."""
    path = folder / "usr/share/fonts/opentype/unifont/unifont.otf"
    for script, (first, last) in ALPHABETS.items():
        for code in range(first, last + 1):
            if unicodedata.category(chr(code)).startswith("L"):
                for seed in range(max(1, 300 // (last - first))):
                    yield script, chr(code), partial(_glyph, chr(code), path, 16 * code + seed)


def _glyph(letter: str, path: Path, seed: int) -> np.ndarray:
    """White on black, turned, scaled, sheared and moved by a seed, of varying weight."""
    from PIL import Image, ImageDraw, ImageFilter, ImageFont

    rng = np.random.default_rng(seed)
    large = Image.new("L", (96, 96))
    ImageDraw.Draw(large).text((48, 48), letter, fill=255, font=ImageFont.truetype(str(path), 64), anchor="mm")
    large = large.filter(ImageFilter.MaxFilter(2 * int(rng.integers(0, 3)) + 1)).filter(ImageFilter.GaussianBlur(1.5))
    turned = large.rotate(rng.normal(0, 8), Image.Resampling.BILINEAR, translate=tuple(rng.normal(0, 3, 2)))
    side = round(GREY_SIDE * np.exp(rng.normal(0, 0.1)))
    small = np.asarray(turned.resize((side, side), Image.Resampling.BOX))
    image = np.zeros((GREY_SIDE, GREY_SIDE), np.uint8)
    inner, outer = max(side - GREY_SIDE, 0) // 2, max(GREY_SIDE - side, 0) // 2
    kept = small[inner : inner + GREY_SIDE, inner : inner + GREY_SIDE]
    image[outer : outer + len(kept), outer : outer + len(kept)] = kept
    return image


def _recordings(folder: Path) -> Images:
    """Spectrograms of a second of words for children, to be told by language; those of one recording are a group."""
    roots = (folder / "usr/share/klettres", folder / "usr/share/ktuberling/sounds")
    for root in roots:
        for path in sorted(p for p in root.glob("*/**/*.*") if p.suffix in (".ogg", ".wav")):
            language = path.relative_to(root).parts[0]
            if language in LANGUAGES:
                for part in range(2):
                    yield language, f"{language}/{path.stem}", partial(_spectrogram, path, part)


def _spectrogram(path: Path, part: int) -> np.ndarray:
    """The loudest second, or a quarter of a second after it."""
    import soundfile

    sound, rate = soundfile.read(path, always_2d=True)
    mono = sound.mean(1)
    at = np.arange(0, len(mono) - 1, rate / RATE)
    smooth = np.convolve(mono, np.ones(max(rate // RATE, 1)) / max(rate // RATE, 1), mode="same")
    mono = np.interp(at, np.arange(len(mono)), smooth)
    mono = np.pad(mono, (0, max(2 * RATE - len(mono), 0)))
    loud = np.convolve(mono**2, np.ones(RATE), mode="valid")[: len(mono) - RATE - RATE // 4 + 1]
    first = int(loud.argmax()) + part * RATE // 4
    second = mono[first : first + RATE]
    frames = np.stack([second[at : at + FRAME] for at in range(0, RATE - FRAME + 1, HOP)][: SIDE - 1])
    power = np.abs(np.fft.rfft(frames * np.hanning(FRAME), axis=1)) ** 2
    edges = np.linspace(1, HIGHEST * FRAME / RATE, SIDE + 1).astype(int)
    bands = np.stack([power[:, low : high + 1].mean(1) for low, high in pairwise(edges)])
    levels = (np.log10(bands + 1e-6) - QUIETEST) / (LOUDEST - QUIETEST)
    image = np.clip(255 * np.pad(levels, ((0, 0), (0, SIDE - levels.shape[1])), mode="edge"), 0, 255)
    return image[::-1].astype(np.uint8)


READERS: dict[str, Callable[[Path], Images]] = {
    "workers": _workers,
    "icons": _icons,
    "alphabets": _alphabets,
    "recordings": _recordings,
}
