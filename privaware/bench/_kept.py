"""Models of trained cells that wait for their attacks, one file each, beside the store of results."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from privaware import features
from privaware._files import atomic_write
from privaware.bench import Settings
from privaware.bench._store import Store, training_key
from privaware.model import Model
from privaware.schema import Schema

__all__ = ["KeptModels", "read_model"]


@dataclass(frozen=True)
class KeptModels:
    """The models of a store's cells whose attacks did not end yet, so that an attack is repeated without a training."""

    folder: Path

    @classmethod
    def of(cls, store: Store) -> KeptModels:
        """Returns the models that belong to a store."""
        return cls(store.path.with_name(f".{store.path.name}.models"))

    def path(self, settings: Settings) -> Path:
        """Returns the file of a cell's model; cells that are one training have one file."""
        name = hashlib.sha256(training_key(settings).encode()).hexdigest()[:32]
        return self.folder / f"{name}.safetensors"

    def keep(self, settings: Settings, model: Model) -> None:
        """Writes the model of a cell."""
        from safetensors.numpy import save

        about = {
            "schema": model.schema.json(),
            "features": [features.describe(feature) for feature in model.features],
            "architecture": model.architecture,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: np.ascontiguousarray(value) for name, value in model.tensors.items()}
        atomic_write(self.path(settings), save(tensors, {"model": json.dumps(about)}))

    def drop(self, settings: Settings) -> None:
        """Removes the model of a cell whose attacks ended, and with the last of them the folder."""
        self.path(settings).unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()


def read_model(path: Path) -> Model | None:
    """Returns the model in a file, or None where no whole file is."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads(file.metadata()["model"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        return None
    chain = tuple(features.build(description) for description in about["features"])
    schema = Schema.from_json(about["schema"])
    return Model(schema=schema, features=chain, architecture=about["architecture"], tensors=tensors)
