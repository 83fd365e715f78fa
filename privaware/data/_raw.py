"""Files as they stand, before a schema gives them meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.errors import WrongInput

if TYPE_CHECKING:
    import pandas as pd

MISSING = ("", "?", "na", "n/a", "nan", "null", "none", "<na>")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")


@dataclass(frozen=True, kw_only=True, repr=False)
class Raw:
    """A file as it stands: a frame of columns, or images with labels. Never printed."""

    frame: pd.DataFrame | None = None
    images: np.ndarray | None = None
    labels: np.ndarray | None = None
    test: Raw | None = None

    def __len__(self) -> int:
        return len(self.frame) if self.frame is not None else len(self.images)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"Raw({'table' if self.frame is not None else 'images'}, rows private)"


def read(source: Any) -> Raw:
    """The file, folder or DataFrame `source` as it stands."""
    if hasattr(source, "columns") and hasattr(source, "iloc"):
        return Raw(frame=_distinct_names(source.rename(columns=str), "the DataFrame"))
    path = Path(source)
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise WrongInput(
            f"expected a data file, a folder of images or a built-in data set, got {str(source)!r}: there is no such thing"
        )
    readers: dict[str, Callable[[Path], Raw]] = {
        ".csv": _csv, ".tsv": _csv, ".txt": _csv, ".parquet": _parquet, ".pq": _parquet, ".npz": _npz,
    }  # fmt: skip
    if path.suffix.lower() not in readers:
        raise WrongInput(
            f"expected {', '.join(readers)} or a folder of images, got {path.name!r}; convert it to one of these"
        )
    try:
        return readers[path.suffix.lower()](path)
    except WrongInput:
        raise
    except OSError as problem:
        raise WrongInput(f"cannot read {path.name!r}: {problem.strerror or problem}") from None


def _csv(path: Path) -> Raw:
    import pandas as pd

    separator = "\t" if path.suffix.lower() in (".tsv", ".txt") else ","
    try:
        frame = pd.read_csv(
            path,
            sep=separator,
            dtype=str,
            keep_default_na=False,
            encoding="utf-8-sig",
            index_col=False,
            skipinitialspace=True,
        )
    except UnicodeDecodeError:
        raise WrongInput(
            f"expected {path.name!r} as UTF-8 text, got other bytes; save it as UTF-8"
        ) from None
    except (
        pd.errors.ParserError,
        pd.errors.EmptyDataError,
        ValueError,
        pd.errors.ParserWarning,
        OverflowError,
    ) as problem:
        raise WrongInput(
            f"expected {path.name!r} as CSV with a header line: {str(problem).strip():.200}"
        ) from None
    return Raw(frame=_distinct_names(frame, path.name))


def _distinct_names(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    names = list(frame.columns)
    if len(set(names)) != len(names):
        raise WrongInput(f"expected distinct column names in {where}, got {some(names)}")
    return frame


def _parquet(path: Path) -> Raw:
    import pandas as pd
    import pyarrow as pa

    try:
        return Raw(frame=_distinct_names(pd.read_parquet(path).rename(columns=str), path.name))
    except (pa.ArrowException, ValueError, OSError) as problem:
        raise WrongInput(
            f"expected {path.name!r} as Parquet: {str(problem).splitlines()[0]:.200}"
        ) from None


def _npz(path: Path) -> Raw:
    import zipfile

    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {
                name: archive[name]
                for name in archive.files
                if name in ("x", "y", "x_test", "y_test")
            }
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, KeyError, MemoryError) as problem:
        raise WrongInput(
            f"expected {path.name!r} as .npz with plain arrays x and y: {problem!s:.200}"
        ) from None
    if "x" not in arrays:
        raise WrongInput(
            f"expected an array x (and y) in {path.name!r}, got {sorted(arrays) or 'neither'}"
        )
    test = (
        _arrays(arrays["x_test"], arrays.get("y_test"), path.name) if "x_test" in arrays else None
    )
    return replace(_arrays(arrays["x"], arrays.get("y"), path.name), test=test)


def _arrays(x: np.ndarray, y: np.ndarray | None, where: str) -> Raw:
    import pandas as pd

    if y is not None and (y.ndim != 1 or len(y) != len(x)):
        raise WrongInput(
            f"expected y in {where} with one value for each of {len(x) if x.ndim else 0} rows, got shape {y.shape}"
        )
    if x.dtype.kind not in "biuf" or x.ndim not in (2, 3, 4):
        raise WrongInput(
            f"expected x in {where} as numbers with 2 (table), 3 (grey images) or 4 dimensions, got {x.dtype} of shape {x.shape}"
        )
    if x.ndim == 2:
        frame = pd.DataFrame({f"x{at}": x[:, at] for at in range(x.shape[1])})
        return Raw(frame=frame if y is None else frame.assign(y=y))
    images = x[:, None] if x.ndim == 3 else x
    if images.shape[1] not in (1, 3) and images.shape[3] in (1, 3):
        images = images.transpose(0, 3, 1, 2)
    return Raw(images=np.ascontiguousarray(images), labels=y)


def _folder(path: Path) -> Raw:
    from PIL import Image, UnidentifiedImageError

    kinds = sorted(folder for folder in path.iterdir() if folder.is_dir())
    files = [
        (file, folder.name)
        for folder in kinds
        for file in sorted(folder.iterdir())
        if file.suffix.lower() in IMAGES
    ]
    if not files:
        raise WrongInput(
            f"expected one sub-folder of images for each class in {path.name!r}, got no image file"
        )
    images, size, mode = [], None, "RGB"
    for file, _ in files:
        try:
            with Image.open(file) as opened:
                mode = ("L" if opened.mode in ("1", "L") else "RGB") if size is None else mode
                image = np.asarray(opened.convert(mode))
        except (
            UnidentifiedImageError,
            OSError,
            ValueError,
            SyntaxError,
            Image.DecompressionBombError,
        ) as problem:
            raise WrongInput(f"cannot read the image {file.name!r}: {problem!s:.120}") from None
        size = size or image.shape
        if image.shape != size:
            raise WrongInput(
                f"expected images of one size, but {file.name!r} is {image.shape[1]} x {image.shape[0]} and the first is {size[1]} x {size[0]}; resize them"
            )
        images.append(image if image.ndim == 3 else image[:, :, None])
    return Raw(
        images=np.stack(images).transpose(0, 3, 1, 2),
        labels=np.array([label for _, label in files], dtype=object),
    )


def numbers_of(values: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (NaN where there is none) and a mask of the values that are missing rather than wrong."""
    import pandas as pd

    if values.dtype.kind in "biuf" and not pd.api.types.is_extension_array_dtype(values.dtype):
        numbers = values.to_numpy(dtype=float)
        return numbers, np.isnan(numbers)
    words = words_of(values)
    numbers = pd.to_numeric(pd.Series(words, dtype=object), errors="coerce").to_numpy(
        dtype=float, na_value=np.nan
    )
    gaps = np.array([word.lower() in MISSING for word in words], dtype=bool)
    return numbers, gaps


def words_of(values: pd.Series) -> np.ndarray:
    """Values as text, spelt as a person would: 1.0 as "1" where the column holds whole numbers only."""
    import pandas as pd

    if (
        values.dtype.kind == "f"
        and not values.isna().any()
        and np.isfinite(values).all()
        and (values == values.round()).all()
    ):
        values = values.astype("int64") if values.abs().max() < 2**53 else values
    return np.array(
        ["" if pd.isna(value) else str(value).strip() for value in values.tolist()], dtype=object
    )


def some(names: Any) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
