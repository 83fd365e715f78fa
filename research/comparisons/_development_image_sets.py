"""Images of other kinds for development, from Debian packages that no unseen set uses.

    apt-get download widelands-data oxygen-icon-theme gnome-icon-theme tango-icon-theme unifont fonts-unifont \\
        klettres-data ktuberling-data                              # each unpacked by `dpkg-deb -x FILE FOLDER`

Images of one group are alike, so a group is either trained on or held out. Recordings need `pip install soundfile`.
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

MAX_IMAGES = 2_500
"""Largest number of images of a set."""
MAX_IMAGES_PER_GROUP = 12
"""Largest number of images of one group."""
TRIBES = ("amazons", "atlanteans", "barbarians", "empire", "frisians")
PLACES = {"workers": "tribes/workers", "sites": "tribes/buildings/productionsites"}
SHEET = re.compile(r"(\w+) = \{((?:[^{}]|\{[^{}]*\})*)\}")
"""The name of an animation and its description."""
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
"""The first and the last letter of each script."""
LANGUAGES = ("ca", "da", "es", "fr", "lt", "ml", "ru", "uk")
RATE = 8_000
"""Number of samples in a second, after resampling."""
FRAME = 256
"""Number of samples in a frame of a spectrogram."""
HOP = 250
"""Number of samples between the starts of two frames."""
HIGHEST = 3_400
"""Highest frequency of a spectrogram in hertz."""
LOUDEST = 2.5
"""Decimal logarithm of the power that is drawn white, for recordings in [-1, 1]."""
QUIETEST = -4.5
"""Decimal logarithm of the power that is drawn black."""


def load(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return images (rows, channels, height, width) as bytes, class codes, and which rows are held out.

    A fifth of the groups is held out.
    """
    chosen, held_out = sampled(READERS[name](folder), MAX_IMAGES, MAX_IMAGES_PER_GROUP)
    labels = sorted({each.label for each in chosen})
    images = [each.image if each.image.ndim == 3 else each.image[:, :, None] for each in chosen]
    y = np.array([labels.index(each.label) for each in chosen])
    return np.stack(images).transpose(0, 3, 1, 2), y, np.array([each.group in held_out for each in chosen])


def _workers(folder: Path) -> Images:
    """Yield frames of workers and buildings of a game; the label is kind and tribe."""
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
    """Return the frames, columns and rows of a sprite sheet; zeros if the game does not state them."""
    script = (path.parent / "init.lua").read_text(encoding="utf-8")
    for name, said in SHEET.findall(script):
        numbers = dict(re.findall(r"(frames|columns|rows) = (\d+)", said))
        if name == path.stem.split("_")[0] and len(numbers) == len(("frames", "columns", "rows")):
            return int(numbers["frames"]), int(numbers["columns"]), int(numbers["rows"])
    return 0, 0, 0


def _icons(folder: Path) -> Images:
    """Yield icons of three desktops; the label is the context, and icons of one name are a group."""
    for theme, place in THEMES.items():
        for context in CONTEXTS:
            for path in sorted((folder / "usr/share/icons" / theme / place / context).glob("*.png")):
                if path.exists():  # some are links into another package
                    yield context, "-".join(path.stem.split("-")[:2]), partial(pictured, path)


def _alphabets(folder: Path) -> Images:
    """Yield letters of twelve scripts, slightly rotated and shifted; the label is the script."""
    path = folder / "usr/share/fonts/opentype/unifont/unifont.otf"
    for script, (first, last) in ALPHABETS.items():
        for code in range(first, last + 1):
            if unicodedata.category(chr(code)).startswith("L"):
                for seed in range(max(1, 300 // (last - first))):
                    yield script, chr(code), partial(_glyph, chr(code), path, 16 * code + seed)


def _glyph(letter: str, path: Path, seed: int) -> np.ndarray:
    """Draw a letter in white on black, randomly rotated, scaled, sheared, shifted and thickened by `seed`."""
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
    """Yield spectrograms of one second of children's words; the label is the language, and a recording is a group."""
    roots = (folder / "usr/share/klettres", folder / "usr/share/ktuberling/sounds")
    for root in roots:
        for path in sorted(p for p in root.glob("*/**/*.*") if p.suffix in (".ogg", ".wav")):
            language = path.relative_to(root).parts[0]
            if language in LANGUAGES:
                for part in range(2):
                    yield language, f"{language}/{path.stem}", partial(_spectrogram, path, part)


def _spectrogram(path: Path, part: int) -> np.ndarray:
    """Return the spectrogram of the loudest second, or of the second that starts a quarter of a second later."""
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
