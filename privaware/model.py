"""A released model: features, architecture and tensors, and the tensor file, without pickle.

Everything in a `Model` is public. A learner returns it, `fit` writes it, and `load` (in `workflow/predict.py`) reads it
with its model card.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from privaware import datasets, features, metrics, models, registry
from privaware._summary import Summarised
from privaware.data import Data, Outside, Raw, coded_targets, from_array, read
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

__all__ = ["TENSORS", "Model", "is_built_in", "read_tensors", "scaled"]

MICROBATCH = 4096
"""Largest number of rows in one forward pass."""
PROBED_ROWS = 256
"""Largest number of rows with which `Model.depends_on` probes a column."""
PROBED_VALUES = 8
"""Largest number of values of a column that `Model.depends_on` tries."""
STRONG_CHANGE = 0.1
"""Smallest mean change of the outputs (probabilities, or fractions of the target's range) by a column that matters."""
TENSORS = "model.safetensors"
"""Name of the tensor file in a model folder."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Model(Summarised):
    """A released model: the maps `features`, applied to rows in order, and a network with the weights `tensors`.

    `schema` has the public facts by which rows are encoded and predictions decoded. `architecture` is the description
    from which `models.build` makes the network, and `tensors` maps the names of its weights to arrays.
    """

    schema: Schema
    features: tuple[Any, ...]
    architecture: dict[str, Any]
    tensors: dict[str, np.ndarray]

    @classmethod
    def of(cls, module: Any, schema: Schema, features: tuple[Any, ...], architecture: dict[str, Any]) -> Model:
        """Build a model from a trained PyTorch `module`, whose state on the CPU gives the `tensors`.

        `schema`, `features` and `architecture` are the fields of `Model`, entered as given. A tensor that is on the CPU
        already is not copied, so further training of `module` would change the model.
        """
        tensors = {name: value.detach().cpu().numpy() for name, value in module.state_dict().items()}
        return cls(schema=schema, features=features, architecture=architecture, tensors=tensors)

    def outputs(self, x: np.ndarray, device: str = "cpu") -> np.ndarray:
        """Apply the features to rows, and return the raw outputs of the network.

        Parameters
        ----------
        x
            Encoded rows, as in `Data.x`.
        device
            "cpu" or "cuda".

        Returns
        -------
        numpy.ndarray
            Outputs of shape (rows, outputs), in float64.
        """
        network = self.network_function(device)
        starts = range(0, max(len(x), 1), MICROBATCH)
        parts = (features.apply(self.features, x[at : at + MICROBATCH], self.schema, device) for at in starts)
        return np.concatenate([network(rows) for rows in parts])

    def network_outputs(self, inputs: np.ndarray, device: str = "cpu") -> np.ndarray:
        """Return raw float64 outputs (rows, outputs) for `inputs`, rows to which the features were applied before."""
        return self.network_function(device)(inputs)

    def network_function(self, device: str = "cpu") -> Callable[[np.ndarray], np.ndarray]:
        """Build the network on `device`, once, and return the function from inputs to its raw outputs.

        Inputs are rows to which the features were applied before. Outputs are float64 of shape (rows, outputs). For a
        table the network computes in float64, because rounding errors depend on the other rows of a microbatch.
        """
        network = self.network().to(device)
        if self.schema.form == "table":
            network = network.double()

        def outputs(inputs: np.ndarray) -> np.ndarray:
            starts = range(0, max(len(inputs), 1), MICROBATCH)
            parts = [_forward(network, inputs[at : at + MICROBATCH], device) for at in starts]
            return np.concatenate(parts).astype(float)

        return outputs

    def probabilities(self, data: Data, device: str = "cpu") -> np.ndarray:
        """Return the probability of each class, for a model of classes.

        Parameters
        ----------
        data
            Rows, encoded by the schema.
        device
            "cpu" or "cuda".

        Returns
        -------
        numpy.ndarray
            Probabilities of shape (rows, classes), in the order of the schema.
        """
        return self.softmax(self.outputs(data.x, device))

    def softmax(self, outputs: np.ndarray) -> np.ndarray:
        """Return the softmax of each row of raw `outputs`: probabilities of shape (rows, classes)."""
        weights = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def predictions(self, data: Data, device: str = "cpu") -> np.ndarray:
        """Return the predictions of the model.

        Parameters
        ----------
        data
            Rows, encoded by the schema.
        device
            "cpu" or "cuda".

        Returns
        -------
        numpy.ndarray
            Class codes, or numbers within the declared range of the target.
        """
        return self.decide(self.outputs(data.x, device))

    def decide(self, outputs: np.ndarray) -> np.ndarray:
        """Return the class code of the largest of the raw `outputs` of each row.

        For regression, return the first output, scaled from [-1, 1] to the range of the target and clipped to it.
        """
        if self.schema.task == "classification":
            return np.asarray(outputs.argmax(axis=1))
        middle, half = _range(self.schema)
        return np.clip(middle + half * outputs[:, 0], self.schema.low, self.schema.high)

    def predict(self, data: Any, *, device: str = "cpu", allow_unreadable: bool = False) -> np.ndarray:
        """Predict labels as text, spelt as in the training data, or numbers.

        Labels are text also if the target had the classes 0 and 1: "0" and "1". Compare them with labels as text, such
        as `frame["y"].astype(str)`, or convert them. (`PrivateClassifier` predicts labels of the type of its y.)

        Parameters
        ----------
        data
            A DataFrame, an array, a file or the name of a built-in data set, whose test rows are predicted.
        device
            "cpu" or "cuda".
        allow_unreadable
            Whether more than half of the values of a column may be unreadable, or all values of a column of texts or of
            a strongly used column missing. Otherwise such a column raises `WrongInput`. Unreadable values count as
            missing.

        Returns
        -------
        numpy.ndarray
            One prediction for each row.
        """
        return self.labels(self.predictions(self.rows(data, allow_unreadable=allow_unreadable), device))

    def labels(self, predictions: np.ndarray) -> np.ndarray:
        """Convert `predictions`, class codes, to labels of the schema; the numbers of a regression stay unchanged."""
        return np.array(self.schema.classes, dtype=object)[predictions] if self.schema.classes else predictions

    def predict_proba(self, data: Any, *, device: str = "cpu", allow_unreadable: bool = False) -> np.ndarray:
        """Predict the probability of each class, in the order of the schema.

        Parameters
        ----------
        data
            A DataFrame, an array, a file or the name of a built-in data set, whose test rows are predicted.
        device
            "cpu" or "cuda".
        allow_unreadable
            Whether more than half of the values of a column may be unreadable, or all values of a column of texts or of
            a strongly used column missing. Otherwise such a column raises `WrongInput`. Unreadable values count as
            missing.

        Returns
        -------
        numpy.ndarray
            Probabilities of shape (rows, classes). A model that predicts numbers raises `WrongInput`.
        """
        if not self.schema.classes:
            raise WrongInput(f"expected a model of classes, got one that predicts the number {self.schema.target!r}")
        return self.probabilities(self.rows(data, allow_unreadable=allow_unreadable), device)

    @property
    def classes_(self) -> np.ndarray:
        """The classes, in the order of the columns of `predict_proba`; a regression model raises `AttributeError`."""
        if not self.schema.classes:
            raise AttributeError("a model that predicts numbers has no classes_")
        return np.array(self.schema.classes, dtype=object)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The names of all columns in the schema, used or not, in the order that an array has them; no target.

        Models of images and texts have none: they raise `AttributeError`.
        """
        if self.schema.form != "table":
            raise AttributeError(f"a model of form {self.schema.form!r} has no feature_names_in_")
        return np.array([column.name for column in self.schema.columns], dtype=object)

    @property
    def n_features_in_(self) -> int:
        """The number of columns of an array of rows, without target; image and text models raise `AttributeError`."""
        return len(self.feature_names_in_)

    def score(self, X: Any, y: Any = None, *, device: str = "cpu") -> float:
        """Return the accuracy of the predictions, or R2 for a model of numbers.

        The score has no noise. If the rows are private, it is for their owner only; `fit` with `score_epsilon` releases
        a score with noise.

        Parameters
        ----------
        X
            The rows, as for `predict`.
        y
            The target of each row; `WrongInput` is raised for another number of targets. Default: the target column of
            `X`.
        device
            "cpu" or "cuda".

        Returns
        -------
        float
            The score on all rows.
        """
        truth, data = self._truth(X, y), self.rows(X)
        if len(truth) != len(data):
            raise WrongInput(f"expected one target for each of {len(data)} rows, got {len(truth)}")
        predictions = self.predictions(data, device)
        return metrics.accuracy(truth, predictions) if self.schema.classes else metrics.r2(truth, predictions)

    def _truth(self, X: Any, y: Any) -> np.ndarray:
        """Return `y`, or the target column of `X` if `y` is None, as class codes or unclipped numbers."""
        import pandas as pd

        schema = replace(self.schema, low=None, high=None)
        if y is not None:
            return coded_targets(read(pd.DataFrame({schema.target: np.asarray(y)})), schema)
        return self.rows(X).y if is_built_in(X) else coded_targets(read(X), schema)

    def rows(
        self,
        data: Any,
        *,
        outside: Outside | None = None,
        allow_unreadable: bool = False,
        part: str = "test",
        **reading: Any,
    ) -> Data:
        """Read rows to predict by the schema.

        Parameters
        ----------
        data
            A DataFrame, an array, a file, rows that were read before, or the name of a built-in data set. The target
            may be missing.
        outside
            A counter of values that do not fit the schema: unseen categories, numbers out of bounds, and values of
            another kind.
        allow_unreadable
            Whether more than half of the values of a column may be unreadable, or all values of a column of texts or of
            a strongly used column missing. Otherwise such a column raises `WrongInput`. Unreadable values count as
            missing.
        part
            The part of a built-in data set: "train" or "test".
        **reading
            The options of `data.read`.

        Returns
        -------
        Data
            The encoded rows. Their `y` is zeros, except for a built-in data set.
        """
        if is_built_in(data):
            expected, built_in = self.schema, datasets.schema(data)
            same = (expected.form, expected.shape) == (built_in.form, built_in.shape)
            names = tuple(column.name for column in expected.used)
            if not (same and _coded(expected).items() <= _coded(built_in.keep(names)).items()):
                raise WrongInput(
                    f"expected the columns that the model was trained on, got {data}, whose columns differ"
                )
            rows: Data = getattr(datasets.load(data), part)
            return rows.keep(names)
        counts = outside or Outside()
        raw = self.raw(data, **reading)
        rows = Data.of(raw, self.schema, labelled=False, outside=counts)
        if not allow_unreadable:
            self.expect_values(counts, raw)
        return rows

    def expect_values(self, outside: Outside, raw: Raw) -> None:
        """Raise `WrongInput` for a column with mostly unreadable values, and for an empty column that matters.

        An empty column matters if it is a column of texts, or if predictions depend strongly on it.

        Parameters
        ----------
        outside
            The counts of all rows.
        raw
            All rows, or some of them.
        """
        outside.expect_readable()
        texts = [column.name for column in self.schema.declared if column.kind == "text"]
        for name in outside.empty_columns():
            if name in texts or self.depends_on(raw, name):
                reads = "model reads texts from" if name in texts else "predictions depend strongly on"
                raise WrongInput(
                    f"column {name!r:.80}: expected values, but all {outside.counts[name]['missing']} are missing, and "
                    f"the {reads} this column; check the column, or predict without it by "
                    "--allow-unreadable=True"
                )

    def depends_on(self, raw: Raw, name: str) -> bool:
        """Return whether values in an empty column of a table would change the predictions by `STRONG_CHANGE`.

        The change is the mean over up to `PROBED_VALUES` values: single values, above all at the ends of the range, may
        change the predictions much where the noise of training is large, although most values hardly change them.

        Parameters
        ----------
        raw
            Rows of a table in which the column is empty. Only the first `PROBED_ROWS` of them are used.
        name
            The name of the column.

        Returns
        -------
        bool
            Whether the values change the predictions so much. False for a table of images, and for a column of texts,
            whose words are not known.
        """
        if raw.frame is None or self.schema.has_images:
            return False
        [column] = [column for column in self.schema.declared if column.name == name]
        values = _some_values(column)
        if not values:
            return False
        few = raw.take(np.arange(min(len(raw), PROBED_ROWS)))
        cells = {column.name: few.values(column.name) for column in self.schema.declared}

        def predicted(**values: Any) -> np.ndarray:
            data = Data.of(Raw(cells={**cells, **values}, rows=len(few)), self.schema, labelled=False)
            if self.schema.classes:
                return self.probabilities(data) / 2  # half of the summed changes is the total variation distance
            return self.predictions(data)[:, None] / (2 * _range(self.schema)[1])

        now = predicted()
        changes = [np.abs(predicted(**{name: np.full(len(few), value)}) - now).sum(axis=1) for value in values]
        return float(np.mean(changes)) >= STRONG_CHANGE

    def raw(self, data: Any, keep: Sequence[str] = (), **reading: Any) -> Raw:
        """Return the rows of a DataFrame, an array or a file as they are; a `Raw` is returned unchanged.

        From a CSV file, only the columns of the schema and the columns `keep` are read. If the file lacks one of these
        columns, all columns are read. `reading` holds the options of `data.read`, which an array does not use.
        """
        if isinstance(data, Raw):
            return data
        needed = [*(column.name for column in self.schema.declared), *keep]
        return self._array(data) if isinstance(data, np.ndarray) else read(data, columns=needed, **reading)

    def _array(self, rows: np.ndarray) -> Raw:
        """Read an array of images, or of all columns of a table, without target, in the order of the schema.

        Raise `WrongInput` if the array of a table has another number of columns.
        """
        names = [column.name for column in self.schema.columns] if self.schema.form == "table" else None
        if names is not None and (rows.ndim != 2 or rows.shape[1] != len(names)):
            raise WrongInput(
                f"expected an array of rows with the {len(names)} columns {', '.join(names[:8])} in this order, got "
                f"one of shape {rows.shape}; a data frame finds them by name"
            )
        return from_array(rows, names)

    def _facts(self) -> dict[str, Any]:
        schema = self.schema
        shape = {"shape": schema.shape} if schema.form == "image" else {"columns": len(schema.declared)}
        target = {"target": schema.target, "classes": schema.classes or None}
        return {**target, **shape, "parameters": sum(value.size for value in self.tensors.values())}

    def tensor_file(self) -> bytes:
        """Return the content of the file `model.safetensors`, which has all `tensors`."""
        from safetensors.numpy import save

        return save({name: np.ascontiguousarray(value) for name, value in self.tensors.items()})

    def check(self) -> None:
        """Run one synthetic example; raise if architecture, features, tensors and schema do not fit together.

        Raise `WrongInput` if the tensors do not fit the architecture, if the outputs do not fit the schema, or if a
        regression has no bounds of its target. Any other mismatch raises the exception of the forward pass.
        """
        if self.schema.task == "regression":
            _range(self.schema)
        shapes = {"image": self.schema.shape, "text": (), "table": (len(self.schema.used),)}
        example = np.zeros((1, *shapes[self.schema.form]), dtype=np.float32)
        outputs = self.outputs(np.array([""], dtype=object) if self.schema.form == "text" else example)
        expected = (1, max(len(self.schema.classes), 1))
        if outputs.shape != expected:
            raise WrongInput(f"expected outputs of shape {expected} by the schema in model.json, got {outputs.shape}")

    def torch_tensors(self) -> dict[str, Any]:
        """Return copies of the tensors as PyTorch tensors, by name."""
        import torch

        return {name: torch.from_numpy(np.array(value)) for name, value in self.tensors.items()}

    def network(self) -> Any:
        """Return a new PyTorch module on the CPU, in evaluation mode, with copies of the tensors.

        Raise `WrongInput` if the tensors do not fit the architecture.
        """
        network = models.build(self.architecture, device="meta")
        try:
            network.load_state_dict(self.torch_tensors(), assign=True)
        except RuntimeError as problem:
            reason = " ".join(str(problem).split())
            raise WrongInput(f"the tensors do not fit the architecture in model.json: {reason:.160}") from None
        return network.eval()


def is_built_in(data: Any) -> bool:
    """Return whether `data` is the name of a built-in data set and no file or folder has this name."""
    return isinstance(data, str) and data in registry.names("datasets") and not Path(data).exists()


def _forward(network: Any, rows: np.ndarray, device: str) -> np.ndarray:
    import torch

    if rows.dtype == object:  # texts without a text feature: a constant model ignores its inputs
        rows = np.zeros((len(rows), 1), dtype=np.float32)
    with torch.no_grad():
        inputs = torch.from_numpy(np.ascontiguousarray(rows)).to(device)
        kind = next((value.dtype for value in network.parameters()), inputs.dtype)
        outputs = network(inputs.to(kind) if inputs.is_floating_point() else inputs)
        return np.asarray(outputs.cpu().numpy())


def scaled(targets: np.ndarray, schema: Schema) -> np.ndarray:
    """Scale regression targets so that the declared range becomes [-1, 1], as networks learn them.

    Parameters
    ----------
    targets
        The target values.
    schema
        The schema with the declared range.

    Returns
    -------
    numpy.ndarray
        The scaled targets, clipped to [-1, 1].
    """
    middle, half = _range(schema)
    return np.clip((targets - middle) / half, -1, 1)


def _some_values(column: Column) -> list[Any]:
    """Return up to `PROBED_VALUES` values of a column: dates as days, times as hours, and truth values as 0 and 1.

    Numbers, dates and times are the centres of equal parts of their range; dates are whole days, without an hour. A
    column of texts has none, because its words are not known.
    """
    if column.kind in ("number", "date", "time"):
        low, high = (0.0, 24.0) if column.low is None or column.high is None else (column.low, column.high)
        centres = [low + (high - low) * (part + 0.5) / PROBED_VALUES for part in range(PROBED_VALUES)]
        return [float(np.floor(day)) for day in centres] if column.kind == "date" else centres
    return ["0", "1"] if column.kind == "boolean" else list(column.categories[:PROBED_VALUES])


def _coded(schema: Schema) -> dict[str, tuple[Any, ...]]:
    """Return (kind, categories, low, high) of each column in `schema.used`, by the name of the column.

    `schema.used` holds the columns that a learner sees. Coding turns each declared column that is used into one or more
    columns of numbers and categories.
    """
    return {column.name: (column.kind, column.categories, column.low, column.high) for column in schema.used}


def _range(schema: Schema) -> tuple[float, float]:
    if schema.low is None or schema.high is None:
        raise WrongInput(f"expected low and high of the target {schema.target!r} in the schema, got neither")
    return (schema.low + schema.high) / 2, (schema.high - schema.low) / 2


def read_tensors(folder: Path) -> dict[str, np.ndarray]:
    """Read the tensors in a model folder.

    Parameters
    ----------
    folder
        The model folder. A missing or damaged file raises `WrongInput`.

    Returns
    -------
    dict
        The tensors by name.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    path = folder / TENSORS
    if not path.is_file():  # a pipe or a device may have no end
        raise WrongInput(f"expected {TENSORS} in the model folder, got none; restore the folder")
    try:
        tensors: dict[str, np.ndarray] = load(path.read_bytes())
    except OSError as problem:
        raise WrongInput(f"expected {TENSORS} in the model folder: {problem.strerror or problem}") from None
    except (SafetensorError, ValueError, KeyError) as problem:
        raise WrongInput(f"{TENSORS} is damaged: {problem!s:.160}; fit the model again or restore the folder") from None
    return tensors
