"""Predict new rows with a released model. This has no privacy cost, because the model is public."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from privaware._files import atomic_file
from privaware._validate import typed_arguments
from privaware.data import Data, Outside, Raw, large_csv, large_table
from privaware.errors import WrongInput
from privaware.model import is_built_in
from privaware.workflow._kept_columns import expect_keepable, expect_no_formulas, kept_columns
from privaware.workflow.load import ReleasedModel, load
from privaware.workflow.run.options import expect_device

__all__ = ["mostly_outside_sentences", "outside_sentences", "predict", "predictions_for_owner"]

SUFFIXES = (".csv", ".parquet")
BLOCKWISE_FROM_BYTES = 2**26
"""Size in bytes from which on a CSV file is predicted block by block."""


@typed_arguments
def predict(
    model: str | Path,
    data: Any,
    *,
    out: str | Path,
    header: bool | None = None,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    device: str = "cpu",
    keep: Sequence[str] = (),
    keep_formulas: bool = False,
    allow_unreadable: bool = False,
) -> dict[str, Any]:
    """Predict the target of new rows and write the predictions to a file.

    The file has one line for each row: the columns `keep`, `prediction`, and one column `probability_CLASS` for each
    class. Labels are spelt as in the training data. Numbers are rounded to at most a millionth of the target's range.
    For a folder of images or texts, the first column is `file`, the path of the file relative to the folder. Large
    tables are read and written in blocks.

    Parameters
    ----------
    model
        The folder of a model.
    data
        The rows to predict, as for `fit`. The target may be absent. Of a built-in data set, the test rows are
        predicted.
    out
        A new CSV or Parquet file, by its suffix. An existing file or another suffix raises `WrongInput`.
    header, sep, decimal, encoding
        The format of a CSV file with rows.
    device
        "cpu" or "cuda".
    keep
        Columns of the rows that are copied to the file unchanged, such as identifiers. The model need not use them.
    keep_formulas
        Write class labels and kept columns to a CSV file even if a spreadsheet would run a cell as a formula. Without
        it, such a cell raises `WrongInput`. No cell is ever changed.
    allow_unreadable
        Predict even if more than half of the values of a column that the model uses cannot be read, or if all values
        of a column of texts, or of a column on which predictions depend strongly, are missing. Unreadable values count
        as missing. Without it, such a column raises `WrongInput`.

    Returns
    -------
    dict
        `rows` (their number), `out` (the path), `outside` and `ranges`. `outside` counts, for each column, the missing
        values and the values that the model does not know: categories that are not in its schema, numbers and dates
        outside its ranges, and values of another type. `ranges` has the ends of the range that the model knows, as
        texts, for each column with values outside it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from privaware import fit
    >>> with TemporaryDirectory() as folder:
    ...     released = fit("wisconsin", epsilon=1.0, learner="majority", out=f"{folder}/model")
    ...     written = predict(f"{folder}/model", "wisconsin", out=f"{folder}/predictions.csv")
    >>> written["rows"] > 100
    True
    """
    path = Path(out)
    if path.suffix.lower() not in SUFFIXES:
        raise WrongInput(f"expected --out as a .csv or .parquet file, got {path.name!r}")
    if path.exists():
        raise _not_overwritten(path)
    expect_device(device)
    released = load(model)
    formulas = keep_formulas or path.suffix.lower() != ".csv"
    if not formulas:
        expect_no_formulas(released.schema.classes)
    reading = {"header": header, "sep": sep, "decimal": decimal, "encoding": encoding}
    outside = Outside()
    pieces = (
        {**_files(raw, formulas), **kept_columns(raw, keep, formulas=formulas), **_columns(released, rows, device)}
        for rows, raw in _pieces(released, data, reading, outside, keep, allow_unreadable)
    )
    return {"rows": _write(pieces, path), "out": str(path), "outside": outside.counts, "ranges": outside.ranges}


def _pieces(
    model: ReleasedModel,
    data: Any,
    reading: dict[str, Any],
    outside: Outside,
    keep: Sequence[str],
    allow_unreadable: bool,
) -> Iterator[tuple[Data, Raw]]:
    """Yield the rows to predict, each part coded for the model (`Data`) and as read (`Raw`).

    A large table comes in several parts, all other data in one. `reading` has the format of a CSV file: `header`,
    `sep`, `decimal` and `encoding`. Values that the model does not know are counted in `outside`. `Raw` has at least
    the columns `keep`. It is empty for built-in data.
    Raise `WrongInput` if the columns `keep` cannot be copied, as for built-in data. Unless `allow_unreadable`, raise
    `WrongInput` for a column most of whose values cannot be read, and for an empty column that matters
    (`Model.expect_values`); for a large table this comes after the last part.
    """
    table = large_table(data) or large_csv(data, reading, BLOCKWISE_FROM_BYTES)
    if table is None or model.schema.has_images:
        if keep and is_built_in(data):
            raise WrongInput(
                "expected a file or a data frame from which --keep copies columns, got a built-in data set; leave "
                "--keep out"
            )
        as_is = not is_built_in(data)
        raw = model.raw(data, keep, **reading) if as_is else Raw()
        if keep:
            expect_keepable(keep, raw, _names(model))
        yield model.rows(raw if as_is else data, outside=outside, allow_unreadable=allow_unreadable, **reading), raw
        return
    if keep:
        expect_keepable(keep, table.head, _names(model))
    raw = table.head
    for rows, of_part, raw in table.unlabelled(model.schema, keep):
        outside.include(of_part)
        yield rows, raw
    if not allow_unreadable:
        model.expect_values(outside, raw)


def _files(raw: Raw, formulas: bool) -> dict[str, np.ndarray]:
    """Return {"file": the names of the files in `raw`}; an empty dictionary for data other than a folder of files.

    Unless `formulas`, raise `WrongInput` for a name that a spreadsheet would run as a formula.
    """
    if not formulas:
        expect_no_formulas(raw.files, "file names")
    return {"file": np.array(raw.files, dtype=object)} if raw.files else {}


def _names(model: ReleasedModel) -> list[str]:
    """Return the names of the columns with predictions: "prediction", and "probability_CLASS" for each class."""
    return ["prediction", *(f"probability_{name}" for name in model.schema.classes)]


def _columns(model: ReleasedModel, rows: Data, device: str) -> dict[str, np.ndarray]:
    """Return the columns that are written for `rows`, by the names in `_names`: arrays with one entry for each row.

    They are the prediction, as the training data spell it, and the probability of each class, if there are classes.
    """
    outputs = model.outputs(rows.x, device)
    predicted = model.labels(model.decide(outputs))
    columns = {"prediction": predicted if model.schema.classes else _rounded(predicted, model)}
    if model.schema.classes:
        probabilities = model.softmax(outputs)
        columns |= {f"probability_{name}": probabilities[:, at] for at, name in enumerate(model.schema.classes)}
    return columns


def _rounded(predicted: np.ndarray, model: ReleasedModel) -> np.ndarray:
    """Return the predictions of a regression without digits that are far below the precision of a private model.

    They are rounded to a power of ten that is at most a millionth of the range of the target.
    """
    low, high = model.schema.low, model.schema.high
    if low is None or high is None or high <= low:
        return predicted
    return np.round(predicted.astype(float), 6 - math.floor(math.log10(high - low)))


def predictions_for_owner(model: str | Path, members: Any, non_members: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return class probabilities for rows that trained a model and for other rows; for the data owner only.

    Nothing is charged, because these probabilities must not be published. A model of numbers raises `WrongInput`.

    Parameters
    ----------
    model
        The folder of a model.
    members, non_members
        Rows that trained the model, and rows that did not. The name of a built-in data set means its training rows for
        members and its test rows for non-members.

    Returns
    -------
    tuple of numpy.ndarray
        Probabilities of members and of non-members, each of shape (rows, classes).
    """
    if members is None or non_members is None:
        raise WrongInput(
            "expected rows that trained the model and other rows (`privaware card --members FILE --non-members FILE`), "
            "got one of them"
        )
    released = load(model)
    if not released.schema.classes:
        raise WrongInput("expected a model of classes, whose probabilities SACRO-ML reads, got one of numbers")
    trained, others = released.rows(members, part="train"), released.rows(non_members)
    return released.probabilities(trained), released.probabilities(others)


def outside_sentences(result: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each column with values that the model does not know, or with most values missing.

    Parameters
    ----------
    result
        The result of `predict`.

    Returns
    -------
    list of str
        The sentences.
    """
    return Outside(result["outside"], ranges=result["ranges"]).sentences(result["rows"])


def mostly_outside_sentences(result: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each column in which most values are outside the range that the model knows.

    Parameters
    ----------
    result
        The result of `predict`.

    Returns
    -------
    list of str
        The sentences.
    """
    return Outside(result["outside"], ranges=result["ranges"]).mostly_outside(result["rows"])


def _write(pieces: Iterable[dict[str, np.ndarray]], path: Path) -> int:
    """Write the pieces one after another to the new file `path`, and return their total number of rows.

    The file is CSV or Parquet, by its suffix. An existing file raises `WrongInput`.
    """
    write = _write_csv if path.suffix.lower() == ".csv" else _write_parquet
    try:
        with atomic_file(path, overwrite=False) as file:
            return write(pieces, file)
    except FileExistsError:  # another process wrote the file first
        raise _not_overwritten(path) from None
    except OSError as problem:
        raise WrongInput(f"cannot write {str(path)!r}: {problem.strerror or problem}") from None


def _write_csv(pieces: Iterable[dict[str, np.ndarray]], file: BinaryIO) -> int:
    import pandas as pd

    rows = 0
    for number, piece in enumerate(pieces):
        pd.DataFrame(piece).to_csv(file, index=False, header=number == 0)
        rows += len(piece["prediction"])
    return rows


def _write_parquet(pieces: Iterable[dict[str, np.ndarray]], file: BinaryIO) -> int:
    import pyarrow as pa
    import pyarrow.parquet

    rows, writer = 0, None
    for piece in pieces:
        table = pa.table(piece)
        writer = writer or pyarrow.parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)
        rows += table.num_rows
    if writer is not None:
        writer.close()
    return rows


def _not_overwritten(path: Path) -> WrongInput:
    return WrongInput(f"{str(path)!r} exists and is not overwritten; choose another --out")
