"""Predictions of a model folder for new rows, in order, labels spelt as in the training data."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import numpy as np

from privaware import datasets, registry
from privaware.data import Data, read
from privaware.errors import WrongInput
from privaware.model import Model

__all__ = ["predict"]


def predict(model: str | Path, data: Any, *, out: str | Path) -> dict[str, Any]:
    """Writes one line a row to `out` (CSV or Parquet by suffix): `prediction`, and a probability for each class."""
    import pandas as pd

    place = Path(out)
    if place.suffix.lower() not in (".csv", ".parquet"):
        raise WrongInput(f"expected --out as a .csv or .parquet file, got {place.name!r}")
    if place.exists():
        raise WrongInput(f"{str(place)!r} exists and is not overwritten; choose another --out")
    loaded = Model.load(model)
    rows = _rows(loaded, data)
    predicted = loaded.predictions(rows)
    if loaded.schema.classes:
        labels = np.array(loaded.schema.classes, dtype=object)[predicted]
        chances = loaded.probabilities(rows)
        columns = {f"probability_{name}": chances[:, at] for at, name in enumerate(loaded.schema.classes)}
        frame = pd.DataFrame({"prediction": labels, **columns})
    else:
        frame = pd.DataFrame({"prediction": predicted})
    _write(frame, place)
    return {"rows": len(frame), "out": str(place)}


def _rows(model: Model, data: Any) -> Data:
    if isinstance(data, str) and data in registry.names("datasets") and not Path(data).exists():
        facts = datasets.schema(data)
        if (facts.form, facts.shape, facts.columns) != (model.schema.form, model.schema.shape, model.schema.columns):
            raise WrongInput(f"expected rows like those the model was made for, got {data}, whose columns differ")
        return datasets.load(data).test
    return Data.of(read(data), model.schema, labelled=False)


def _write(frame: Any, place: Path) -> None:
    """The whole file or none."""
    partial = place.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        if place.suffix.lower() == ".csv":
            frame.to_csv(partial, index=False)
        else:
            frame.to_parquet(partial)
        partial.replace(place)
    except OSError as problem:
        raise WrongInput(f"cannot write {str(place)!r}: {problem.strerror or problem}") from None
    finally:
        partial.unlink(missing_ok=True)
