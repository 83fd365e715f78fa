"""Read files and data frames as they are, before a schema gives their values meaning.

In files of Stata, SPSS and SAS a column with value labels holds categories, by their labels. Which categories occur
must still be declared in a schema or released under privacy, as for a data frame. The types of columns follow from the
header of the file.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privaware.data._arff import read_arff
from privaware.data._arrays import IMAGES, read_folder, read_npz
from privaware.data._csv import CsvFile
from privaware.data._json_lines import read_json
from privaware.data._open import COMPRESSED, expect_small_archive, inner_name
from privaware.data._raw import Raw, check_names, parsing
from privaware.data._values import quoted
from privaware.errors import WrongInput

if TYPE_CHECKING:
    import pandas as pd

TEXT = (".csv", ".tsv", ".tab", ".txt")
"""Suffixes of CSV files."""
PARQUET = (".parquet", ".pq")
ARROW = (*PARQUET, ".feather", ".arrow", ".ipc")
EXCEL = (".xlsx", ".xlsm")
JSON_LINES = (".jsonl", ".ndjson")
JSON = (*JSON_LINES, ".json")
ARFF = (".arff",)
STATA = (".dta",)
"""Suffixes of Stata files."""

SPSS = (".sav", ".zsav")
"""Suffixes of SPSS files."""

SAS = (".xpt", ".sas7bdat")
"""Suffixes of SAS files."""

STATISTICS = (*STATA, *SPSS, *SAS)
"""Suffixes of files of statistics programs."""
MIN_TRANSPORT_NUMBER = 1e-78
"""Numbers of smaller absolute value in a SAS transport file are zeros."""


def read_statistics(path: Path, encoding: str | None = None) -> pd.DataFrame:
    """Return the table in a file of Stata, SPSS or SAS.

    `encoding` is the encoding of text in SAS files, UTF-8 by default; files of Stata and SPSS declare their own. Raise
    `WrongInput` for a damaged file, and for an SPSS file if the package pyreadstat is not installed.
    """
    import pandas as pd

    suffix = path.suffix.lower()
    if suffix in STATA:
        with parsing(path, "a Stata file"):
            return pd.read_stata(path)
    if suffix in SAS:
        with parsing(path, f"a SAS file with text in {encoding or 'UTF-8'}"):
            return _with_zeros(pd.read_sas(path, encoding=encoding or "utf-8"))
    try:
        import pyreadstat  # noqa: F401
    except ImportError:
        raise WrongInput(
            f"{quoted(path.name)} is an SPSS file, which needs another package; pip install 'privaware[spss]', "
            "or save it as CSV"
        ) from None
    with parsing(path, "an SPSS file"):
        return pd.read_spss(path)


def _with_zeros(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with 0 in place of floats whose absolute value is below `MIN_TRANSPORT_NUMBER`.

    pandas reads zeros of a SAS transport file as such tiny numbers.
    """
    numbers = frame.select_dtypes("float")
    return frame.assign(**numbers.mask(numbers.abs() < MIN_TRANSPORT_NUMBER, 0.0))


def read(
    source: Any,
    *,
    header: bool | None = None,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    columns: Collection[str] | None = None,
) -> Raw:
    """Read a file, folder or data frame as it is.

    Parameters
    ----------
    source : str, path or data frame
        The path of a file (CSV, JSON, ARFF, Parquet, Feather, Excel, Stata, SPSS, SAS or `.npz`), the path of a folder
        (Parquet files, or images or texts in one sub-folder for each class), or a data frame of pandas or polars.
    header : bool, optional
        Whether the first line of a CSV file holds names; by default it does, and a first line with a number is refused.
    sep : str, optional
        The separator of a CSV file; by default the most frequent one in the first line.
    decimal : str, optional
        "," if numbers of a CSV file have a decimal comma, "." if they have a point. By default a comma counts as a
        decimal comma only in files with the separator ";".
    encoding : str, optional
        The encoding of a text file, or of text in a SAS file. By default it is UTF-8, or for a CSV file with a byte
        order mark the encoding of the mark.
    columns : collection of str, optional
        The only columns of a CSV file that are needed; by default all. If one of them is absent, all are read.

    Returns
    -------
    Raw
        The rows.

    Raises
    ------
    WrongInput
        If there is no such file, it cannot be read, it is damaged, or its format is not known.
    """
    if hasattr(source, "columns") and hasattr(source, "iloc"):
        return Raw(frame=check_names(source, "the DataFrame"))
    if hasattr(source, "__arrow_c_stream__"):
        return _from_arrow(source)
    if not isinstance(source, (str, os.PathLike)):
        raise _no_table(source)
    path = Path(source)
    try:
        if os.fspath(source) and path.is_dir():
            return replace(_arrow(path), folder=path) if parquet_files(path) else read_folder(path, encoding)
        if not os.fspath(source) or not path.exists():  # a pipe is read like a file
            raise WrongInput(
                "expected a data file, a folder of images or a built-in data set, "
                f"but there is nothing called {quoted(source)}"
            )
        reading = {"header": header, "sep": sep, "decimal": decimal, "encoding": encoding}
        return replace(_file(path, reading, columns), folder=path.parent)
    except OSError as problem:
        raise WrongInput(f"cannot read {quoted(path.name)}: {problem.strerror or type(problem).__name__}") from None


def _file(path: Path, reading: dict[str, Any], columns: Collection[str] | None) -> Raw:
    try:
        suffix = inner_name(path).suffix.lower()
    except zipfile.BadZipFile:
        raise WrongInput(
            f"expected {quoted(path.name)} as a zip archive: it is truncated, damaged or of another format"
        ) from None
    compressed = path.suffix.lower() in COMPRESSED
    if suffix in TEXT:
        file = CsvFile(path=path, **reading)
        with parsing(path, file.format):
            frame = file.frame(columns)
        return raw_of_csv(file, frame, line=file.line, declared=file.names_are_certain)
    if suffix in JSON:
        with parsing(path, "JSON"):
            return read_json(path, reading["encoding"], only_lines=suffix in JSON_LINES)
    if suffix in ARFF:
        with parsing(path, "ARFF"):
            return read_arff(path, reading["encoding"])
    if suffix in IMAGES:
        raise WrongInput(f"expected a folder of images, got the single image {quoted(path.name)}; put it into a folder")
    if compressed or suffix not in (*ARROW, *EXCEL, *STATISTICS, ".npz"):
        raise WrongInput(
            f"expected {', '.join((*TEXT, *JSON, *ARFF, *ARROW, *EXCEL, *STATISTICS, '.npz'))} (text files also as "
            f"{', '.join(COMPRESSED)}) or a folder of images, got {quoted(path.name)}; convert it to one of these"
        )
    if suffix in STATISTICS:
        return Raw(frame=check_names(read_statistics(path, reading["encoding"]), path.name), name=path.name)
    return read_npz(path) if suffix == ".npz" else _excel(path) if suffix in EXCEL else _arrow(path)


def raw_of_csv(file: CsvFile, frame: pd.DataFrame, **facts: Any) -> Raw:
    """Return rows of the CSV file `file` as `Raw`, with its name, separator and width; `facts` are further fields."""
    return Raw(
        frame=check_names(frame, file.path.name),
        name=file.path.name,
        separator=file.separator,
        fields=len(file.names),
        typed=False,
        **facts,
    )


def read_names(source: Any, reading: Mapping[str, Any]) -> Raw | None:
    """Return the names of the columns of a CSV file as a table without rows; None if `source` is no CSV file.

    Parameters
    ----------
    source : object
        A path, or another object. A path names a CSV file if it names a regular file whose name, without the suffix of
        a compression, ends with `.csv`, `.tsv`, `.tab` or `.txt`. A pipe is no regular file, because it can be read
        only once.
    reading : mapping
        Any of the options `header`, `sep`, `decimal` and `encoding` of `read`.

    Returns
    -------
    Raw or None
        The table without rows; a header line that `read` refuses raises `WrongInput`. It is None for any `source` other
        than the path of a CSV file, and for a file that cannot be opened.
    """
    if not isinstance(source, (str, os.PathLike)) or not os.path.isfile(source):
        return None
    path = Path(source)
    with suppress(OSError, zipfile.BadZipFile):  # `read` raises these errors
        if inner_name(path).suffix.lower() in TEXT:
            file = CsvFile(path=path, **reading)
            with parsing(path, file.format):
                return raw_of_csv(file, file.empty(), line=file.line, declared=file.names_are_certain)
    return None


def _excel(path: Path) -> Raw:
    """Return the first sheet of a workbook, whose first row holds the names; each cell has its own type.

    Empty rows are left out, and column number N (from 1) without a name is called column_N. Raise `WrongInput` for an
    empty sheet, if only the first of several columns has a name, and if the package openpyxl is not installed.
    """
    import pandas as pd

    try:
        import openpyxl  # noqa: F401
    except ImportError:
        raise WrongInput(
            f"{quoted(path.name)} is an Excel file, which needs another package; pip install 'privaware[excel]', "
            "or save it as CSV"
        ) from None
    with parsing(path, "an Excel workbook"):
        expect_small_archive(path)
        cells = pd.read_excel(path, header=None, dtype=object, engine="openpyxl", keep_default_na=False, na_values=[""])
    cells = cells.dropna(how="all")
    if not len(cells):
        raise WrongInput(f"expected a row of names in the first sheet of {quoted(path.name)}, got an empty sheet")
    names = ["" if pd.isna(name) else str(name).strip() for name in cells.iloc[0]]
    if len(names) > 1 and not any(names[1:]):
        raise WrongInput(
            f"expected the names of {len(names)} columns in the first row of the first sheet of {quoted(path.name)}, "
            "but only its first cell is filled; remove titles above the names"
        )
    names = [name or f"column_{at + 1}" for at, name in enumerate(names)]
    frame = cells.iloc[1:].reset_index(drop=True).set_axis(names, axis=1)
    return Raw(frame=check_names(frame, path.name), name=path.name, typed=False)


def _arrow(path: Path) -> Raw:
    import pyarrow.feather
    import pyarrow.parquet

    feather = not parquet_files(path)
    with parsing(path, "Feather" if feather else "Parquet"):
        if feather:
            table = pyarrow.feather.read_table(path)
        else:
            table = pyarrow.concat_tables([pyarrow.parquet.ParquetFile(file).read() for file in parquet_files(path)])
        frame = frame_of_arrow(table)
    return Raw(frame=check_names(frame, path.name), name=path.name)


def parquet_files(path: Path) -> list[Path]:
    """Return the Parquet files of `path`: itself, or those directly in a folder, in the order of their names.

    The list is empty for a file with another suffix, and for a folder without Parquet files.
    """
    if not path.is_dir():
        return [path] if path.suffix.lower() in PARQUET else []
    return sorted(file for file in path.iterdir() if file.suffix.lower() in PARQUET and file.is_file())


def _from_arrow(source: Any) -> Raw:
    """Return the rows of `source`: a data frame of polars, or another object that exports an Arrow table.

    Raise `WrongInput` if it exports anything else, such as a single column.
    """
    import pyarrow as pa

    try:
        table = pa.table(source)
    except (pa.ArrowException, TypeError, ValueError):  # a single column; messages of Arrow quote rows
        raise _no_table(source) from None
    return Raw(frame=check_names(frame_of_arrow(table), "the data frame"))


def _no_table(source: Any) -> WrongInput:
    return WrongInput(
        f"expected the path of a data file or a data frame, got {type(source).__name__}; give a DataFrame of pandas or "
        "polars, such as the one that collect() of a LazyFrame returns"
    )


def frame_of_arrow(table: Any, *, split: bool = False) -> pd.DataFrame:
    """Return an Arrow table as a pandas frame, whose types do not depend on which values are missing.

    Decimals become float64. A stored index with a name becomes a column. If `split`, each column has its own block of
    memory, which avoids copies.
    """
    import pyarrow as pa

    for at, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.float64()))
    frame: pd.DataFrame = table.to_pandas(types_mapper=_nullable, split_blocks=split)
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()  # an index with a name is a column
    return frame


def _nullable(kind: Any) -> Any:
    """Return the pandas type with missing values for the Arrow type `kind`: integers, booleans and dates (days).

    So a missing value does not turn integers into floats. Return None, pandas' default, for any other type.
    """
    import pandas as pd
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return pd.BooleanDtype()
    if pa.types.is_date(kind):
        return pd.ArrowDtype(pa.date32())
    if pa.types.is_unsigned_integer(kind):
        return pd.UInt64Dtype()
    return pd.Int64Dtype() if pa.types.is_signed_integer(kind) else None
