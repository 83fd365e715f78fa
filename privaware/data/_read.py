"""Files read as they are, before a schema gives their values meaning."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.data._csv import CsvFile
from privaware.data._values import got, listed, quoted, values_shown
from privaware.errors import WrongInput

if TYPE_CHECKING:
    import pandas as pd

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
CSV = (".csv", ".tsv", ".txt")
GREY = ("1", "L", "LA", "I", "I;16", "I;16B", "I;16L", "F")


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Raw:
    """A file as it is: a table, or images with labels. `repr` shows no row.

    `name` is that of the file; `line` tells on which line of a text file a row begins. Names of columns are `declared`
    unless they stand in the first line of a text file, which may be a row.
    """

    frame: pd.DataFrame | None = None
    images: np.ndarray | None = None
    labels: np.ndarray | None = None
    test: Raw | None = None
    name: str = ""
    line: Callable[[int], int] | None = None
    declared: bool = True

    def __len__(self) -> int:
        rows = self.frame if self.frame is not None else self.images
        return 0 if rows is None else len(rows)

    def place(self, row: int) -> str:
        """Where a person finds a row, counted from 0: its line in a text file, else its number."""
        return f"row {row + 1}" if self.line is None else f"line {self.line(row)}"

    def columns_shown(self, *without: str) -> str:
        """The names of the columns in a message; where they may be a row, only their number."""
        names = [] if self.frame is None else [name for name in self.frame.columns if name not in without]
        if self.declared or values_shown():
            return listed(names)
        return f"the {len(names)} names in the first line (--header shows them, --no-header if it is a row)"

    @contextmanager
    def named(self) -> Iterator[None]:
        """Puts the name of the file before what is wrong with its rows."""
        try:
            yield
        except WrongInput as problem:
            raise WrongInput(f"{quoted(self.name)}: {problem}" if self.name else str(problem)) from None

    def __repr__(self) -> str:
        return f"Raw({'table' if self.frame is not None else 'images'}, rows private)"


def read(source: Any, *, header: bool | None = None) -> Raw:
    """The file, folder or DataFrame `source` as it is; `header` says whether the first line of a CSV holds names."""
    if hasattr(source, "columns") and hasattr(source, "iloc"):
        return Raw(frame=_check_names(source, "the DataFrame"))
    if not isinstance(source, (str, os.PathLike)):
        raise WrongInput(f"expected the path of a data file or a pandas DataFrame, got {type(source).__name__}")
    path = Path(source)
    try:
        if path.is_dir():
            return _folder(path)
        if not path.exists():
            raise WrongInput(
                "expected a data file, a folder of images or a built-in data set, "
                f"but there is nothing called {quoted(source)}"
            )
        return _csv(path, header) if path.suffix.lower() in CSV else _reader(path)(path)
    except OSError as problem:
        raise WrongInput(f"cannot read {quoted(path.name)}: {problem.strerror or type(problem).__name__}") from None


def _reader(path: Path) -> Callable[[Path], Raw]:
    readers: dict[str, Callable[[Path], Raw]] = {".parquet": _parquet, ".pq": _parquet, ".npz": _npz}
    if path.suffix.lower() not in readers:
        raise WrongInput(
            f"expected {', '.join((*CSV, *readers))} or a folder of images, got {quoted(path.name)}; "
            "convert it to one of these"
        )
    return readers[path.suffix.lower()]


@contextmanager
def _parsing(path: Path, expected: str) -> Iterator[None]:
    """Turns whatever a parser raises on a damaged file into one sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except WrongInput:
        raise
    except MemoryError:
        raise WrongInput(f"{quoted(path.name)} does not fit into this machine's memory") from None
    except Exception as problem:
        if isinstance(problem, OSError) and problem.errno is not None:  # of the disk, not of a parser
            raise
        reason = " ".join(str(problem).encode("utf-8", "replace").decode().split())
        cause = "it is cut, damaged or something else"
        if "pickle" in reason:
            cause = "it holds pickled objects, which could run code when opened"
        raise WrongInput(f"expected {quoted(path.name)} as {expected}: {cause}{got(reason)}") from None


def _csv(path: Path, header: bool | None) -> Raw:
    file = CsvFile(path=path, header=header)
    with _parsing(path, "CSV in UTF-8"):
        frame = file.frame()
    return Raw(frame=_check_names(frame, path.name), name=path.name, line=file.line, declared=header is not None)


def _check_names(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    if frame.columns.nlevels > 1:
        raise WrongInput(f"expected one level of column names in {where}, got several")
    names = [str(name) for name in frame.columns]
    if "" in names:
        raise WrongInput(
            f"expected a name for every column in {quoted(where)}, got none for column "
            f"{names.index('') + 1} of {len(names)}"
        )
    if repeated := next((name for name, times in Counter(names).items() if times > 1), ""):
        first, second = [at + 1 for at, name in enumerate(names) if name == repeated][:2]
        raise WrongInput(
            f"expected distinct column names in {quoted(where)}, got the same for columns {first} and {second}"
            f"{got(repeated)}"
        )
    return frame.set_axis(names, axis=1)


def _parquet(path: Path) -> Raw:
    import pyarrow.parquet as pq

    with _parsing(path, "Parquet"):
        frame = pq.read_table(path).to_pandas(types_mapper=_nullable)
        if any(name is not None for name in frame.index.names):
            frame = frame.reset_index()  # an index with a name is a column
    return Raw(frame=_check_names(frame, path.name), name=path.name)


def _nullable(kind: Any) -> Any:
    """Whole numbers stay whole beside a missing one, which would otherwise turn all of them into floats."""
    import pandas as pd
    import pyarrow as pa

    return (
        pd.UInt64Dtype()
        if pa.types.is_unsigned_integer(kind)
        else pd.Int64Dtype()
        if pa.types.is_signed_integer(kind)
        else None
    )


def _npz(path: Path) -> Raw:
    with _parsing(path, ".npz with plain arrays x and y"), path.open("rb") as file:
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


def _folder(path: Path) -> Raw:
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir())
    files = [
        (file, folder.name) for folder in folders for file in sorted(folder.iterdir()) if file.suffix.lower() in IMAGES
    ]
    if not files:
        raise WrongInput(f"expected one sub-folder of images for each class in {quoted(path.name)}, got no image")
    images = [_image(file) for file, _ in files]
    size = images[0].shape[:2]
    for (file, _), image in zip(files, images, strict=True):
        if image.shape[:2] != size:
            raise WrongInput(
                f"expected images of one size, but {quoted(file.name)} differs from the first"
                f"{got(f'{image.shape[1]} x {image.shape[0]} beside {size[1]} x {size[0]}')}; resize them"
            )
    if len({image.ndim for image in images}) > 1:  # grey and colour images
        images = [image if image.ndim == 3 else np.stack([image] * 3, axis=2) for image in images]
    stacked = np.stack(images)
    stacked = stacked[:, None] if stacked.ndim == 3 else stacked.transpose(0, 3, 1, 2)
    return Raw(images=stacked, labels=np.array([label for _, label in files], dtype=np.str_), name=path.name)


def _image(file: Path) -> np.ndarray:
    """One image as bytes: (height, width) if grey, else (height, width, 3); alpha is dropped."""
    from PIL import Image

    with _parsing(file, "an image"), Image.open(file) as opened:
        if opened.mode.startswith("I"):  # 16 bits a pixel: Pillow would truncate, not scale
            return (np.clip(np.asarray(opened, dtype=np.int64), 0, 65535) >> 8).astype(np.uint8)
        return np.asarray(opened.convert("L" if opened.mode in GREY else "RGB"))
