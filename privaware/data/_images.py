"""Images that a column of a table names, and pixels in the shape that a schema declares.

Names of files are values of rows, so messages name the column and the line of a file, not the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from privaware.data._arrays import IMAGES, decoded_images
from privaware.data._raw import Raw
from privaware.data._values import got, is_missing, quoted, words_of
from privaware.errors import WrongInput


def with_images(raw: Raw, column: str | None) -> Raw:
    """Return a table with the images of the files that one of its columns names, relative to `raw.folder`.

    Parameters
    ----------
    raw : Raw
        The rows. A name that is missing or no name of an image file, a file that cannot be read, a damaged file, and an
        image of another size than the first, raise `WrongInput`.
    column : str, optional
        The name of the column. `raw` is returned unchanged if this is None, if it has no such column or no row, or if
        it already has the images of this column.

    Returns
    -------
    Raw
        The table with `images`.
    """
    if column is None or raw.frame is None or raw.image == column or column not in raw.frame.columns or not len(raw):
        return raw
    words, folder = words_of(raw.frame[column]), raw.folder or Path()

    def named(row: int) -> str:
        return f"the file in column {quoted(column)}, {raw.place(row)}"

    files = [_file(folder, words.word(row), partial(named, row)) for row in range(len(raw))]
    images, uneven = decoded_images(files, named, raw.name or "the data frame")
    return replace(raw, images=images, image=column, uneven=raw.uneven or uneven)


def _file(folder: Path, name: str, named: Callable[[], str]) -> Path:
    """Return the path of the image file called `name` in `folder`.

    Raise `WrongInput`, which calls the file `named()`, if `name` is missing or no name of an image, or if the file
    cannot be opened.
    """
    path = folder / name
    if is_missing(name) or path.suffix.lower() not in IMAGES:
        raise WrongInput(f"{named()}: expected the name of an image file ({', '.join(IMAGES)}){got(name)}; correct it")
    try:
        with path.open("rb"):
            return path
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "it is no file name"
        raise WrongInput(f"{named()} cannot be read: {reason}{got(name)}; correct the name, or add the file") from None


def pixels(raw: Raw, shape: tuple[int, ...]) -> np.ndarray:
    """Return the images of `raw` as float32 pixels from 0 to 1, of shape (rows, *shape).

    `shape` is (channels, height, width). Colour becomes grey, or grey is repeated in three channels, if `shape` asks
    for it. Integers are divided by their largest value: 1 for booleans, 65535 for uint16, otherwise 255. Raise
    `WrongInput` if there are no images, if they have another size, and for floats outside 0 to 1.
    """
    images = raw.images
    if images is None:
        raise WrongInput(
            f"expected images for a schema of form 'image', got {raw.kind}; give a folder of images, or use another "
            "model or schema"
        )
    if images.shape[1:] == (3, *shape[1:]) and shape[0] == 1:
        images = _grey(images)
    if images.shape[1:] == (1, *shape[1:]) and shape[0] == 3:
        images = np.repeat(images, 3, axis=1)
    if images.shape[1:] != shape:
        advice = "" if images.shape[2:] == shape[1:] else f"; scale the images to {shape[2]} x {shape[1]} pixels"
        first = f" in {quoted(Path(raw.files[0]).name)}" if raw.files else ""
        raise WrongInput(f"expected images of shape {list(shape)}, got {list(images.shape[1:])}{first}{advice}")
    if images.dtype.kind != "f":
        top = {"bool": 1, "uint16": 65535}.get(str(images.dtype), 255)
        return np.clip(images.astype(np.float32) / top, 0, 1)
    wrong = np.asarray(~((images >= 0) & (images <= 1)).all(axis=(1, 2, 3)))
    if wrong.any():
        raise WrongInput(
            f"image {int(np.argmax(wrong)) + 1}: expected finite values from 0 to 1, or whole numbers from "
            "0 to 255; scale the array x"
        )
    return images.astype(np.float32)


def as_bytes(images: np.ndarray) -> np.ndarray:
    """Return an object array with the bytes of the float32 pixels of each image, as a row of a table holds it."""
    rows = np.empty(len(images), dtype=object)
    for at, image in enumerate(images):
        rows[at] = np.asarray(image, np.float32).tobytes()
    return rows


def from_bytes(images: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return images (rows,), an object array as `as_bytes` returns it, as float32 pixels (rows, *shape).

    A value that is no image of this shape, (channels, height, width), becomes a black image.
    """
    size = 4 * math.prod(shape)
    stored = (image if isinstance(image, bytes) and len(image) == size else bytes(size) for image in images.tolist())
    return np.frombuffer(b"".join(stored), np.float32).reshape(len(images), *shape).copy()


def _grey(images: np.ndarray) -> np.ndarray:
    """Return colour images (rows, 3, ...) as grey images (rows, 1, ...) by the weights of ITU-R 601.

    Integers stay integers.
    """
    grey = np.tensordot(images, np.array([0.299, 0.587, 0.114]), axes=(1, 0))[:, None]
    return grey if images.dtype.kind == "f" else np.round(grey).astype(images.dtype)
