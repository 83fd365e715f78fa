"""Files of statistics programs: Stata, SPSS and SAS.

A column with value labels holds categories, by their labels, as for the categories of a data frame: which of them occur
is still bought or declared. All that a column is follows from the header of the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from privaware.data._raw import parsing
from privaware.data._values import quoted
from privaware.errors import WrongInput

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["STATISTICS", "read_statistics"]

STATA = (".dta",)
"""Endings of files of Stata."""

SPSS = (".sav", ".zsav")
"""Endings of files of SPSS."""

SAS = (".xpt", ".sas7bdat")
"""Endings of files of SAS."""

STATISTICS = (*STATA, *SPSS, *SAS)
LEAST = 1e-78
"""Numbers of a transport file are 0 or larger."""


def read_statistics(path: Path, encoding: str | None = None) -> pd.DataFrame:
    """The table of a file; `encoding` is that of text in a file of SAS, which does not say."""
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
    """The frame with the zeros of a transport file, which pandas reads as the least number that such a file holds."""
    numbers = frame.select_dtypes("float")
    return frame.assign(**numbers.mask(numbers.abs() < LEAST, 0.0))
