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


@dataclass(frozen=True)
class KeptModels:
    """The models in `folder`, one file each, of trained cells whose attacks have not all succeeded yet.

    With them an attack can be repeated without training the model again.
    """

    folder: Path

    @classmethod
    def of(cls, store: Store) -> KeptModels:
        """Return the models of the cells in `store`; their folder is hidden, beside the file of the store."""
        return cls(store.path.with_name(f".{store.path.name}.models"))

    def path(self, settings: Settings) -> Path:
        """Return the path of the file for the model of a cell with these `settings`; the file need not exist.

        Cells whose settings differ only in names or attacks have the same model, and the same file.
        """
        name = hashlib.sha256(training_key(settings).encode()).hexdigest()[:32]
        return self.folder / f"{name}.safetensors"

    def keep(self, settings: Settings, model: Model) -> None:
        """Write `model` to the file of the cell with these `settings`; make the folder if it does not exist.

        The file (safetensors) has the tensors, and in its metadata the schema, the features and the architecture.
        """
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
        """Remove the file of the model of a cell, if it exists, and then the folder, if it is empty.

        Call it only for a cell in which every attack ran without an error.
        """
        self.path(settings).unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()


def read_model(path: Path) -> Model | None:
    """Return the model in a file that `KeptModels.keep` wrote, or None if the file is missing or damaged."""
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
