"""`fit` without options on image sets on which no default was chosen.

    python -m research.comparisons.unseen_images FOLDER [--sets NAME ...] [--seeds N ...] [--methods NAME ...]
    python -m research.papers._page unseen_images

FOLDER holds the unpacked packages of `_unseen_image_sets.py`. `auto` is compared with the private constant at the same
budget, the constant without noise, and two methods without privacy: logistic regression on the features that `auto`
uses at epsilon 1, and a small convolutional network. If `auto` uses the public network for photographs, its cells and
the cells of the logistic regression on its features name that network, and are stored beside cells measured without it.
The same holds if `auto` weighs the features of several networks. A feature depends only on its own image, so runs share
features, and the bits are those of `fit`. Runs are seeded, for comparison only.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from research.comparisons import record
from research.comparisons._plain_images import logistic, network
from research.comparisons._unseen_image_sets import READERS, load, write

ITEM = "benchmarks/unseen_images"
OUT = Path("docs/results/unseen_images")
LEARNERS = {"auto": "auto", "private constant": "majority"}
PLAIN = ("constant", "logistic regression", "network")
EPSILONS = (1.0, 0.1, 0.3)
DELTA = 1e-5


@dataclass
class ImageSet:
    """Training rows and held-out rows, as `fit` reads them from folders; features are computed once."""

    train: Any
    held_out: Any
    groups: np.ndarray
    known: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, packages: Path) -> ImageSet:
        from privaware.data import Data, read, typed
        from privaware.workflow.run.source import scoring

        parts = load(name, packages)
        with tempfile.TemporaryDirectory() as folder:
            for part, images in zip(("train", "test"), parts, strict=True):
                write(images, Path(folder, part))
            train, held_out = read(Path(folder, "train")), read(Path(folder, "test"))
        schema = replace(typed(train, target="class", task=None, unit="row", cap=1).bare(), reviewed=True)
        labels = sorted({image.label for image in parts[0]})
        groups = [image.group for label in labels for image in parts[0] if image.label == label]
        return cls(Data.of(train, schema), Data.of(held_out, scoring(schema)), np.array(groups))

    def rows(self, learner: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the training rows and the held-out rows of `learner`, after its features."""
        key = json.dumps(learner.features)
        if key not in self.known:
            self.known[key] = learner.rows_for(self.train), learner.rows_for(self.held_out)
        return self.known[key]

    def private(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the learner and the score of the plan of `fit`."""
        from privaware.learners.linear import Linear
        from privaware.noise import Rng

        plan = self.plan(settings["epsilon"], LEARNERS[settings["method"]])
        rng, learner = Rng(seed=settings["seed"]), plan.mechanism
        if not isinstance(learner, Linear):
            predicted = learner.run(self.train, plan.noise, rng).predictions(self.held_out)
            return {"learner": plan.learner, "score": float(np.mean(predicted == self.held_out.y))}
        rows, to_score = self.rows(learner)
        model = learner.run_on(rows.copy(), self.train, plan.noise, rng)
        outputs = to_score @ model.tensors["output.weight"].T + model.tensors["output.bias"]
        facts = {"learner": plan.learner, "features": [each["name"] for each in learner.features or ()]}
        return {**facts, "score": float(np.mean(outputs.argmax(1) == self.held_out.y))}

    def plan(self, epsilon: float, learner: str) -> Any:
        from privaware.workflow.run.training_plan import training_plan

        return training_plan(self.train.schema, epsilon=epsilon, delta=DELTA, learner=learner)

    def settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the settings of a cell, with the public network if its method uses it."""
        from privaware.features._public_photos import NETWORK

        if settings["method"] not in ("auto", "logistic regression"):
            return settings
        learner = self.plan(settings.get("epsilon", EPSILONS[0]), "auto").mechanism
        named = [each["name"] for each in getattr(learner, "features", None) or ()]
        weighed = {"weighed": True} if getattr(learner, "weigh", 0.0) else {}
        return {**settings, "network": NETWORK, **weighed} if "extractor" in named else settings

    def plain(self, method: str) -> dict[str, Any]:
        """Return the score of a method without privacy."""
        y, truth = self.train.y, self.held_out.y
        if method == "constant":
            return {"score": float(np.mean(truth == np.bincount(y).argmax()))}
        if method == "logistic regression":
            rows, to_score = self.rows(self.plan(EPSILONS[0], "auto").mechanism)
            return {"score": float(np.mean(logistic(rows, y, self.groups, to_score) == truth))}
        return {"score": float(np.mean(network(self.train.x, y, self.held_out.x) == truth))}


def cells(name: str, seeds: list[int]) -> Iterator[dict[str, Any]]:
    """Yield the settings of every cell of a set: first the cells for a row of the page, then further seeds."""
    for method in PLAIN:
        yield {"images": name, "method": method}
    first = [(epsilon, seeds[0]) for epsilon in EPSILONS]
    runs = [
        *first,
        *((EPSILONS[0], seed) for seed in seeds[1:]),
        *((e, seed) for e in EPSILONS[1:] for seed in seeds[1:2]),
    ]
    for epsilon, seed in runs:
        for method in LEARNERS:
            yield {"images": name, "epsilon": epsilon, "seed": seed, "method": method}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--sets", nargs="+", default=list(READERS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", choices=[*PLAIN, *LEARNERS], default=[*PLAIN, *LEARNERS])
    options = parser.parse_args()
    for name in options.sets:
        asked = (settings for settings in cells(name, options.seeds) if settings["method"] in options.methods)
        images = ImageSet.of(name, options.folder)
        for settings in map(images.settings, asked):
            if _known(settings, options.out):
                continue
            began = time.perf_counter()
            score = images.private(settings) if "epsilon" in settings else images.plain(settings["method"])
            schema = images.train.schema
            facts = {"rows": schema.rows, "classes": len(schema.classes), "shape": list(schema.shape)}
            facts["seconds"] = round(time.perf_counter() - began, 1)
            record(options.out, ITEM, settings, {**facts, **score})
            print(json.dumps({**settings, **score, "seconds": facts["seconds"]}), flush=True)


def _known(settings: dict[str, Any], out: Path) -> bool:
    from privaware.bench._store import Store, cell_key

    return cell_key(ITEM, settings) in Store(out / "cells.jsonl").read()


if __name__ == "__main__":
    main()
