"""What a search has done so far, on disk, so that a killed one goes on without training or scoring anything twice.

The folder is as secret as the rows: it holds losers that are never shown and the state of the generators. It is made
for its owner only and taken away when the search has ended.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privaware import features
from privaware.model import Model, write_file
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["Cut", "Journal"]

Result = tuple[Model, float]
Cut = tuple[int, int]  # candidates of a job at most, and jobs of a round at least


@dataclass(frozen=True)
class Journal:
    """One file for each job that ended: its models and their noisy scores."""

    folder: Path

    def begin(self, rng: Rng, mark: str, cut: Cut) -> tuple[Rng, Cut]:
        """The generator of this search and how its jobs are cut: as they were when it first began.

        A search with another `mark`, of other rows or candidates, has nothing to go on from. Nothing of the first one
        was ever shown, so it begins anew.
        """
        path = self.folder / "state.json"
        if path.exists():
            state = json.loads(path.read_bytes())
            if state["mark"] == mark:
                return Rng.restore(state["rng"]), (state["cut"][0], state["cut"][1])
            self.end()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(path, json.dumps({"mark": mark, "cut": cut, "rng": rng.state()}).encode())
        return rng, cut

    def find(self, name: str, schema: Schema) -> list[Result] | None:
        """The models and scores of a job, if it ended."""
        from safetensors.numpy import load

        path = self._path(name)
        if not path.exists():
            return None
        arrays = load(path.read_bytes())
        facts = json.loads(bytes(arrays.pop("facts")))
        out = []
        for at, about in enumerate(facts):
            mark = f"{at}/"
            tensors = {key.removeprefix(mark): value for key, value in arrays.items() if key.startswith(mark)}
            chain = tuple(features.build(description) for description in about["features"])
            model = Model(schema=schema, features=chain, architecture=about["architecture"], tensors=tensors)
            out.append((model, float(about["score"])))
        return out

    def keep(self, name: str, results: Sequence[Result]) -> None:
        """Everything of a job at once, or nothing."""
        from safetensors.numpy import save

        facts = [
            {
                "architecture": model.architecture,
                "features": [features.describe(feature) for feature in model.features],
                "score": score,
            }
            for model, score in results
        ]
        arrays: dict[str, Any] = {
            f"{at}/{key}": np.ascontiguousarray(value)
            for at, (model, _) in enumerate(results)
            for key, value in model.tensors.items()
        }
        arrays["facts"] = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8).copy()
        write_file(self._path(name), save(arrays))

    def end(self) -> None:
        """Takes everything away."""
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"
