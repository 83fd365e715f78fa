"""Arrays of numbers, images and texts: `.npz` files and folders with one sub-folder for each class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privaware.data._open import Expansion, expect_small_archive
from privaware.data._raw import Raw, parsing
from privaware.data._values import got, listed, quoted
from privaware.errors import WrongInput

if TYPE_CHECKING:
    from PIL import Image

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff")
"""Suffixes of image files."""
TEXTS = (".txt",)
"""Suffixes of text files."""
GREY = ("1", "L", "LA", "I", "I;16", "I;16B", "I;16L")
"""Pillow's modes of grey images."""


def read_npz(path: Path) -> Raw:
    """Return the rows of an `.npz` file: the arrays x and y, and as `test` the arrays x_test and y_test if present.

    x is a table of numbers (rows, columns), whose columns are called x0, x1 and so on, or images. y has one number or
    text for each row and may be absent. Raise `WrongInput` if x is absent, or if one of them has another type or shape.
    """
    with parsing(path, ".npz with plain arrays x and y"), path.open("rb") as file:
        expect_small_archive(path)
        archive = np.load(file, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise WrongInput(f"expected {quoted(path.name)} as .npz, got a single array")
        names = archive.files
        arrays = {name: archive[name] for name in ("x", "y", "x_test", "y_test") if name in names}
    if "x" not in arrays:
        raise WrongInput(f"expected an array x (and y) in {quoted(path.name)}, got {listed(names) or 'none at all'}")
    train = _from_arrays(arrays["x"], arrays.get("y"), path.name)
    if "x_test" not in arrays:
        return train
    return replace(train, test=_from_arrays(arrays["x_test"], arrays.get("y_test"), path.name))


def from_array(x: np.ndarray, names: list[str] | None = None) -> Raw:
    """Return an array from memory as raw rows.

    Parameters
    ----------
    x : numpy.ndarray
        A table of numbers (rows, columns), or images (rows, height, width) or (rows, channels, height, width). If only
        the last dimension is 1 or 3, it counts the channels. Other shapes and types raise `WrongInput`.
    names : list of str, optional
        The names of the columns of a table; by default x0, x1 and so on. With names the array is a table, whose values
        may be of any type.

    Returns
    -------
    Raw
        The rows.
    """
    import pandas as pd

    if names is None:
        return _from_arrays(x, None, "the array")
    return Raw(frame=pd.DataFrame(x, columns=names).infer_objects())


def _from_arrays(x: np.ndarray, y: np.ndarray | None, where: str) -> Raw:
    import pandas as pd

    if x.dtype.kind not in "biuf" or x.ndim not in (2, 3, 4):
        raise WrongInput(
            f"expected x in {quoted(where)} as numbers with 2 (table), 3 (grey images) or "
            f"4 dimensions, got {x.dtype!s:.40} of shape {x.shape}"
        )
    if y is not None and (y.ndim != 1 or len(y) != len(x) or y.dtype.kind not in "biufUS"):
        raise WrongInput(
            f"expected y in {quoted(where)} with one number or text for each of {len(x)} rows, "
            f"got {y.dtype!s:.40} of shape {y.shape}"
        )
    if x.ndim == 2:
        frame = pd.DataFrame(x, columns=[f"x{at}" for at in range(x.shape[1])])
        return Raw(frame=frame if y is None else frame.assign(y=y), name=where)
    images = x[:, None] if x.ndim == 3 else x
    if images.shape[1] not in (1, 3) and images.shape[3] in (1, 3):
        images = images.transpose(0, 3, 1, 2)
    return Raw(images=np.ascontiguousarray(images), labels=y, name=where)


def read_folder(path: Path, encoding: str | None = None) -> Raw:
    """Return the images or texts of a folder with one sub-folder for each class.

    `encoding` is the encoding of text files, by default UTF-8. Files and folders whose name begins with a dot are
    skipped and not counted.

    Images are bytes (rows, channels, height, width), and labels are the names of the sub-folders. If all files in
    sub-folders are texts, the rows are a table with the columns `text` and `class`. Otherwise files that are no images
    are skipped. `Raw.skipped` counts them and the files beside the sub-folders. If no sub-folder has images, the images
    of the folder itself are returned, without labels. If it has none, and no sub-folder has a file, its texts are
    returned as a table with the column `text`. Raise `WrongInput` if there are neither images nor texts, if some
    sub-folders have images and others only texts, if a sub-folder has folders with images, or if images differ in size.
    """
    entries = _shown(path)
    inside = [(file, folder.name) for folder in entries if folder.is_dir() for file in _shown(folder)]
    files = [(file, label) for file, label in inside if file.suffix.lower() in IMAGES]
    texts = [(file, label) for file, label in inside if file.suffix.lower() in TEXTS]
    loose = [(entry, "") for entry in entries if entry.is_file()]
    skipped = len(inside) + len(loose) - len(files or texts)
    if texts and len(texts) == len(inside):
        return replace(_texts(texts, path.name, encoding), skipped=skipped)
    _expect_no_nested_images(inside, path.name)
    if not files:
        if images := [(file, label) for file, label in loose if file.suffix.lower() in IMAGES]:
            return replace(_images(images, path.name), labels=None)
        alone = [(file, label) for file, label in loose if file.suffix.lower() in TEXTS]
        if alone and not inside:
            raw = _texts(alone, path.name, encoding)
            return replace(raw, frame=None if raw.frame is None else raw.frame[["text"]])
        if texts:
            other = next(entry for entry in inside if entry[0].suffix.lower() not in TEXTS)
            raise WrongInput(
                f"expected only text files ({', '.join(TEXTS)}) in the sub-folders of {quoted(path.name)}, but "
                f"{_named(*other)} is {'a folder' if other[0].is_dir() else 'another file'}; move it out"
            )
        raise WrongInput(
            f"expected one sub-folder of images ({', '.join(IMAGES)}) or text files ({', '.join(TEXTS)}) for each "
            f"class in {quoted(path.name)}, got none" + ("; to read a table, name its file" if loose else "")
        )
    with_images, with_texts = {label for _, label in files}, {label for _, label in texts}
    if with_texts - with_images:
        raise WrongInput(
            f"expected images or text files in the sub-folders of {quoted(path.name)}, got both: some sub-folders have "
            "images, and others have text files and no image; keep one kind"
        )
    return replace(_images(files, path.name), skipped=skipped)


def _expect_no_nested_images(inside: list[tuple[Path, str]], where: str) -> None:
    """Raise `WrongInput` if folders among the entries `inside` of sub-folders have images, which nobody would read.

    The message counts these folders. It names the first; its sub-folder, a class, is shown to the owner only.
    """
    nested = [(entry, label) for entry, label in inside for _ in _folders_with_images(entry)]
    if nested:
        count = f"{len(nested)} folders further down have" if len(nested) > 1 else "1 folder further down has"
        raise WrongInput(
            f"expected the images of each class in its sub-folder of {quoted(where)} itself, but {count} images, "
            f"the first in {_named(*nested[0])}; move these images up, or the folders out"
        )


def _folders_with_images(path: Path) -> Iterator[Path]:
    """Yield `path` and the folders in it, at any depth, that have images; links and hidden folders are skipped."""
    if path.is_dir() and not path.is_symlink():
        entries = _shown(path)
        if any(entry.suffix.lower() in IMAGES for entry in entries):
            yield path
        for entry in entries:
            yield from _folders_with_images(entry)


def _shown(path: Path) -> list[Path]:
    """Return the sorted entries of a folder without hidden ones, such as `.DS_Store`."""
    return sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))


def _names(files: list[tuple[Path, str]]) -> tuple[str, ...]:
    """Return the path of each file relative to the folder with all classes; a label is the class of a file, or ""."""
    return tuple(f"{label}/{file.name}" if label else file.name for file, label in files)


def _named(file: Path, label: str) -> str:
    """Return what a message calls a file; its sub-folder `label`, the class, is shown to the owner only."""
    return quoted(f"{label}/{file.name}" if label and got(label) else file.name)


def _images(files: list[tuple[Path, str]], where: str) -> Raw:
    images, uneven = decoded_images([file for file, _ in files], lambda at: _named(*files[at]), where)
    labels = np.array([label for _, label in files], dtype=np.str_)
    return Raw(images=images, labels=labels, name=where, uneven=uneven, files=_names(files))


def decoded_images(files: Sequence[Path], named: Callable[[int], str], where: str) -> tuple[np.ndarray, str]:
    """Return the images of some files, at least one, and a sentence if some are grey and others in colour.

    Parameters
    ----------
    files : sequence of Path
        The image files. A damaged file, and an image of another size than most, raise `WrongInput`.
    named : callable
        Returns what a message calls the file at a position.
    where : str
        What a message calls all files together.

    Returns
    -------
    images : numpy.ndarray
        Bytes (uint8) of shape (files, channels, height, width); 1 channel if all images are grey, otherwise 3.
    uneven : str
        The sentence; empty if all images are grey or all in colour.
    """
    expansion = Expansion(where, sum(file.stat().st_size for file in files))
    images = [_image(file, partial(named, at), expansion) for at, file in enumerate(files)]
    ((size, _),) = Counter(image.shape[:2] for image in images).most_common(1)
    for at, image in enumerate(images):
        if image.shape[:2] != size:
            raise WrongInput(
                f"expected images of one size, but {named(at)} differs from most"
                f"{got(f'{image.shape[1]} x {image.shape[0]} instead of {size[1]} x {size[0]}')}; resize them"
            )
    mixed = [at for at, image in enumerate(images) if image.ndim != images[0].ndim]
    uneven = ""
    if mixed:  # grey and colour images
        uneven = (
            f"{named(mixed[0])}: expected all images in grey or all in colour, as the first, because their channels "
            "are taken as public; convert them"
        )
        images = [image if image.ndim == 3 else np.stack([image] * 3, axis=2) for image in images]
    stacked = np.stack(images)
    return stacked[:, None] if stacked.ndim == 3 else stacked.transpose(0, 3, 1, 2), uneven


def _texts(files: list[tuple[Path, str]], where: str, encoding: str | None) -> Raw:
    """Return a table with the columns `text` and `class` (the label of a file); `where` is the name of the table."""
    import pandas as pd

    texts = []
    for file, label in files:
        try:
            texts.append(file.read_bytes().decode(encoding or "utf-8-sig"))
        except LookupError:
            raise WrongInput(f"expected --encoding such as utf-8 or latin-1, got {encoding!r:.60}") from None
        except UnicodeError:
            raise WrongInput(
                f"{_named(file, label)}: expected {encoding or 'UTF-8'}, got other bytes; name another encoding with "
                "--encoding, such as latin-1, or save the file as UTF-8 text"
            ) from None
    frame = pd.DataFrame({"text": texts, "class": [label for _, label in files]})
    return Raw(frame=frame, name=where, files=_names(files))


def _image(file: Path, named: Callable[[], str], expansion: Expansion) -> np.ndarray:
    """Return one image as bytes (uint8): (height, width) if grey, else (height, width, 3); transparency is dropped.

    A photograph is rotated by its orientation tag. 16 bits a pixel become 8. `expansion` counts the decoded bytes of
    all images, and raises `WrongInput` past its limit before the image is decoded. A damaged file and an image of
    floats raise `WrongInput`, too; a message calls the file `named()`.
    """
    from PIL import ImageOps

    with parsing(file, "an image", named), _opened(file, named) as stored:
        expansion.add(stored.width * stored.height * (1 if stored.mode in GREY else 3))
        opened = ImageOps.exif_transpose(stored)
        if opened.mode == "F":
            raise WrongInput(f"expected {named()} with 8 or 16 bits a pixel, got floats; convert it")
        if opened.mode.startswith("I"):  # 16 bits a pixel: Pillow would truncate, not scale
            return (np.clip(np.asarray(opened, dtype=np.int64), 0, 65535) >> 8).astype(np.uint8)
        return np.asarray(opened.convert("L" if opened.mode in GREY else "RGB"))


def _opened(file: Path, named: Callable[[], str]) -> Image.Image:
    """Return the opened image; only its header is read. Pillow's error for a damaged file is passed on.

    Raise `WrongInput`, which calls the file `named()`, for an image that Pillow refuses for its size (about 180 million
    pixels or more).
    """
    from PIL import Image

    try:
        return Image.open(file)
    except Image.DecompressionBombError:
        raise WrongInput(
            f"expected images that fit into memory, but {named()} has more pixels than Pillow opens (its limit guards "
            "against decompression bombs); resize it"
        ) from None
