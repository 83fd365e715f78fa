"""A released model: features, architecture and tensors, and the folder that holds them without pickle.

What is in a `Model` is what the world may see. It is made by a learner, written by `fit` and read by
`predict`, `verify` and `report`.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privaware import datasets, features, models, registry
from privaware.data import Data, read
from privaware.errors import WrongInput
from privaware.schema import Schema

__all__ = ["TENSORS", "Model", "read_facts", "read_tensors", "scaled", "write_file"]

MICROBATCH = 4096
TENSORS = "model.safetensors"


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """Rows go through `features`, then through the network of `architecture` with these `tensors`."""

    schema: Schema
    features: tuple[Any, ...]
    architecture: dict[str, Any]
    tensors: dict[str, np.ndarray]

    @classmethod
    def of(cls, module: Any, schema: Schema, features: tuple[Any, ...], architecture: dict[str, Any]) -> Model:
        """The released form of a trained torch module."""
        tensors = {name: value.detach().cpu().numpy() for name, value in module.state_dict().items()}
        return cls(schema=schema, features=features, architecture=architecture, tensors=tensors)

    def outputs(self, x: np.ndarray, device: str = "cpu") -> np.ndarray:
        """Raw outputs of the network, one line a row."""
        network = self._network().to(device)
        made = []
        for at in range(0, max(len(x), 1), MICROBATCH):
            rows = features.apply(self.features, x[at : at + MICROBATCH], self.schema)
            made.append(_through(network, rows, device))
        return np.concatenate(made).astype(float)

    def outputs_of(self, rows: np.ndarray, device: str = "cpu") -> np.ndarray:
        """The same for rows that went through the features already."""
        network = self._network().to(device)
        parts = range(0, max(len(rows), 1), MICROBATCH)
        made = [_through(network, rows[at : at + MICROBATCH], device) for at in parts]
        return np.concatenate(made).astype(float)

    def probabilities(self, data: Data) -> np.ndarray:
        """The chance of each class, one line a row."""
        logits = self.outputs(data.x)
        logits -= logits.max(axis=1, keepdims=True)
        weights = np.exp(logits)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def predictions(self, data: Data) -> np.ndarray:
        """Class codes, or numbers within the declared range of the target."""
        return self.decided(self.outputs(data.x))

    def decided(self, outputs: np.ndarray) -> np.ndarray:
        """What raw outputs predict."""
        if self.schema.task == "classification":
            return np.asarray(outputs.argmax(axis=1))
        middle, half = _range(self.schema)
        return np.clip(middle + half * outputs[:, 0], middle - half, middle + half)

    def predict(self, data: Any) -> np.ndarray:
        """Labels spelt as in the training data, or numbers, for a data frame, a file or a built-in data set."""
        predictions = self.predictions(self.rows(data))
        return np.array(self.schema.classes, dtype=object)[predictions] if self.schema.classes else predictions

    def predict_proba(self, data: Any) -> np.ndarray:
        """The probability of each class, in the order of the schema, one line a row."""
        if not self.schema.classes:
            raise WrongInput(f"expected a model of classes, got one that predicts the number {self.schema.target!r}")
        return self.probabilities(self.rows(data))

    def rows(self, data: Any) -> Data:
        """Rows to predict, read against the schema; the target may be missing."""
        if isinstance(data, str) and data in registry.names("datasets") and not Path(data).exists():
            schema = datasets.schema(data)
            if (schema.form, schema.shape, schema.columns) != (
                self.schema.form,
                self.schema.shape,
                self.schema.columns,
            ):
                raise WrongInput(f"expected rows like those the model was made for, got {data}, whose columns differ")
            return datasets.load(data).test
        return Data.of(read(data), self.schema, labelled=False)

    def tensor_bytes(self) -> bytes:
        """The content of `model.safetensors`."""
        from safetensors.numpy import save

        return bytes(save({name: np.ascontiguousarray(value) for name, value in self.tensors.items()}))

    def check(self) -> None:
        """One synthetic example goes through, or the description does not belong to the tensors."""
        if self.schema.task == "regression":
            _range(self.schema)
        shapes = {"image": self.schema.shape, "text": (), "table": (len(self.schema.used),)}
        example = np.zeros((1, *shapes[self.schema.form]), dtype=np.float32)
        outputs = self.outputs(np.array([""], dtype=object) if self.schema.form == "text" else example)
        expected = (1, max(len(self.schema.classes), 1))
        if outputs.shape != expected:
            raise WrongInput(f"expected outputs of shape {expected} by the schema in model.json, got {outputs.shape}")

    def save(self, folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
        """Writes the tensors and returns what `model.json` is to say: a folder with that file is finished."""
        from safetensors.numpy import save

        arrays = {name: np.ascontiguousarray(value) for name, value in self.tensors.items()}
        content = save(arrays)
        write_file(folder / "model.safetensors", content)
        described = {
            "schema": self.schema.json(),
            "features": [features.describe(feature) for feature in self.features],
            "architecture": self.architecture,
        }
        return {"format": 1, **facts, **described, "tensors": hashlib.sha256(content).hexdigest()}

    @classmethod
    def load(cls, folder: str | Path) -> Model:
        """The model in a folder; a damaged or foreign one is refused with a sentence."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        facts = read_facts(folder)
        path = Path(folder) / "model.safetensors"
        try:
            tensors = load(path.read_bytes())
        except OSError as problem:
            raise WrongInput(f"expected {path.name} in the model folder: {problem.strerror or problem}") from None
        except (SafetensorError, ValueError, KeyError) as problem:
            raise WrongInput(
                f"{path.name} is damaged: {problem!s:.160}; fit the model again or restore the folder"
            ) from None
        try:
            made = cls(
                schema=Schema.from_json(facts["schema"]),
                features=tuple(features.build(description) for description in facts["features"]),
                architecture=facts["architecture"],
                tensors=tensors,
            )
            made.check()
        except WrongInput:
            raise
        except Exception as problem:  # a wrong description can surface in any layer of a network
            reason = " ".join(f"{type(problem).__name__} {problem}".split())
            raise WrongInput(f"model.json is damaged: {reason:.200}; restore the folder") from None
        return made

    def torch_tensors(self) -> dict[str, Any]:
        """Copies of the tensors, for a module of this architecture."""
        import torch

        return {name: torch.from_numpy(np.array(value)) for name, value in self.tensors.items()}

    def _network(self) -> Any:
        network = models.build(self.architecture, device="meta")
        try:
            network.load_state_dict(self.torch_tensors(), assign=True)
        except RuntimeError as problem:
            reason = " ".join(str(problem).split())
            raise WrongInput(f"the tensors do not fit the architecture in model.json: {reason:.160}") from None
        return network.eval()


def _through(network: Any, rows: np.ndarray, device: str) -> np.ndarray:
    import torch

    if rows.dtype == object:  # words that no feature reads: a constant ignores its rows
        rows = np.zeros((len(rows), 1), dtype=np.float32)
    with torch.no_grad():
        made = network(torch.from_numpy(np.ascontiguousarray(rows)).to(device))
        return np.asarray(made.cpu().numpy())


def scaled(targets: np.ndarray, schema: Schema) -> np.ndarray:
    """Regression targets as a network learns them: the declared range becomes [-1, 1]."""
    middle, half = _range(schema)
    return np.clip((targets - middle) / half, -1, 1)


def _range(schema: Schema) -> tuple[float, float]:
    if schema.low is None or schema.high is None:
        raise WrongInput(f"expected low and high of the target {schema.target!r} in the schema, got neither")
    return (schema.low + schema.high) / 2, (schema.high - schema.low) / 2


def read_tensors(folder: Path) -> dict[str, np.ndarray]:
    """The tensors in a model folder; a damaged file is refused with a sentence."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    path = folder / TENSORS
    try:
        tensors: dict[str, np.ndarray] = load(path.read_bytes())
    except OSError as problem:
        raise WrongInput(f"expected {TENSORS} in the model folder: {problem.strerror or problem}") from None
    except (SafetensorError, ValueError, KeyError) as problem:
        raise WrongInput(f"{TENSORS} is damaged: {problem!s:.160}; fit the model again or restore the folder") from None
    return tensors


def read_facts(folder: str | Path) -> dict[str, Any]:
    """What `model.json` says, checked for its form."""
    path = Path(folder) / "model.json"
    if not path.is_file():
        raise WrongInput(f"expected a model folder with model.json, got {str(folder)!r}; make one with `privaware fit`")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise WrongInput(f"model.json cannot be read: {problem!s:.160}; restore the folder") from None
    needed = {"format", "schema", "features", "architecture", "guarantee", "events"}
    if not isinstance(facts, dict) or not needed <= set(facts) or facts["format"] != 1:
        raise WrongInput(f"expected model.json of format 1 with {', '.join(sorted(needed))}; restore the folder")
    return facts


def write_file(path: Path, content: bytes) -> None:
    """Writes all of a file or nothing: to a neighbour first, flushed to disk, then renamed."""
    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
