"""Finished trials of a search on disk, so that an interrupted search resumes without repeating a training or score.

The folder is as secret as the rows: it holds candidates that are never released, and the state of the random
generators. Only its owner can read it. A run removes it before its result is published (`workflow/run/staging.py`). The
folder is named after the charge of its run, and every file holds that name, so a file of another run is not read.
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
from privaware._files import atomic_write
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

Result = tuple[Model, float]
"""A model and its noisy score."""
JobSizes = tuple[int, int]  # largest number of candidates in a job, smallest number of jobs in a round


@dataclass(frozen=True)
class SearchJournal:
    """Files in `folder`, one for each finished job of a search.

    A job is a list of candidates that train together. Its file holds their models and noisy scores.
    """

    folder: Path

    def begin(self, rng: Rng, fingerprint: str, job_sizes: JobSizes) -> tuple[Rng, JobSizes]:
        """Return the `Rng` and the job sizes with which this search began; if it begins now, return the arguments.

        `job_sizes` is (largest number of candidates in a job, smallest number of jobs in a round). A search whose
        `fingerprint` differs, because its rows or candidates differ, cannot resume: the folder is emptied and the
        search starts over. Nothing of the earlier search was ever released.
        """
        path, fingerprint = self.folder / "state.json", f"{self.folder.name} {fingerprint}"
        if path.exists():
            state = json.loads(path.read_bytes())
            if state.get("fingerprint") == fingerprint:
                return Rng.restore(state["rng"]), (state["job_sizes"][0], state["job_sizes"][1])
            self.end()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = {"fingerprint": fingerprint, "job_sizes": job_sizes, "rng": rng.state()}
        atomic_write(path, json.dumps(state).encode(), mode=0o600)
        return rng, job_sizes

    def find(self, name: str, schema: Schema) -> list[Result] | None:
        """Return (model, noisy score) for each candidate of the finished job `name`; None if this run has no such job.

        The models get `schema`, which is not stored.
        """
        from safetensors.numpy import load

        path = self._path(name)
        if not path.exists():
            return None
        arrays = load(path.read_bytes())
        facts = json.loads(bytes(arrays.pop("facts")))
        if facts["run"] != self.folder.name:
            return None
        results = []
        for at, about in enumerate(facts["results"]):
            prefix = f"{at}/"
            tensors = {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
            chain = tuple(features.build(description) for description in about["features"])
            model = Model(schema=schema, features=chain, architecture=about["architecture"], tensors=tensors)
            results.append((model, float(about["score"])))
        return results

    def keep(self, name: str, results: Sequence[Result]) -> None:
        """Write `results`, (model, noisy score) for each candidate of the finished job `name`, atomically to a file."""
        from safetensors.numpy import save

        about = [
            {
                "architecture": model.architecture,
                "features": [features.describe(feature) for feature in model.features],
                "score": score,
            }
            for model, score in results
        ]
        facts = {"run": self.folder.name, "results": about}
        arrays: dict[str, Any] = {
            f"{at}/{key}": np.ascontiguousarray(value)
            for at, (model, _) in enumerate(results)
            for key, value in model.tensors.items()
        }
        arrays["facts"] = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8).copy()
        atomic_write(self._path(name), save(arrays), mode=0o600)

    def end(self) -> None:
        """Remove the folder with all its files, if it exists."""
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"
