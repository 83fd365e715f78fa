"""The study behind the choice of `auto` for images: representations with a private linear head on nine small sets.

    python -m research.comparisons.image_choice FOLDER [--workers N] [--seconds S] [--only REPRESENTATION ...]
        [--sets NAME ...]

Sets are first written to FOLDER (see `_image_sets.py`). Scores go to FOLDER/scores.jsonl, and stored scores are not
measured again. With `--ship` they become `privaware/workflow/auto/image.json`. A fifth of the rows is scored. Wide
rows are first written in coordinates of their own span, which preserves norms and inner products.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from privaware.learners.linear import Linear

EVIDENCE = Path("privaware/workflow/auto/image.json")
EPSILONS = (0.3, 1.0, 3.0, 10.0)
DELTA = 1e-5
Parts = tuple[tuple[int, float], ...]
SEEDS = 2
HEADS: dict[str, dict[str, Any]] = {"": {}, ", centred": {"centre": 0.05}}
WEIGHED: dict[str, dict[str, Any]] = {", weighed": {"centre": 0.05, "weigh": 0.05}}
"""Settings of heads for weighed features of several networks."""
COLOURS = ("cifar10", "svhn")


def representations(name: str) -> dict[str, list[dict[str, Any]]]:
    """Return descriptions of features by name; the large prior is always combined with scattering."""
    prior, scatter = {"name": "prior", "scatter": 1.0}, {"name": "scatter"}
    small, public = {"name": "prior", "network": "small"}, {"name": "extractor", "power": 0.5}
    if name not in COLOURS:
        return {
            "pixels": [{"name": "pixels"}],
            "scattering": [scatter, {"name": "group_norm", "groups": 27}],
            "glyphs": [prior | {"network": "glyphs", "scatter": 0.5}],
            "glyphs and small prior": [small | {"glyphs": 1.0}],
            "public network and glyphs": [public | {"glyphs": 1.4}],
            "public network, glyphs and small prior": [public | {"glyphs": 1.8, "small": 1.0}],
        }
    return {
        "pixels": [{"name": "pixels"}],
        "scattering": [scatter, {"name": "group_norm", "groups": 81}],
        "glyphs": [prior | {"network": "glyphs", "scatter": 0.5}],
        "small prior": [small],
        "small prior and glyphs": [small | {"glyphs": 0.5}],
        "small prior, glyphs and scattering": [small | {"glyphs": 0.5, "scatter": 1.0}],
        "large prior, mirrored": [prior],
        "large prior and glyphs": [prior | {"glyphs": 0.5}],
        "public network and glyphs": [public | {"glyphs": 0.5}],
        "public network, glyphs and small prior": [public | {"glyphs": 0.7, "small": 0.5}],
    }


def cells(job: tuple[Path, str, str, float]) -> list[dict[str, Any]]:
    """Return the scores of one representation of one set, at every epsilon."""
    folder, name, representation, deadline = job
    import torch

    torch.set_num_threads(1)
    from privaware import features
    from privaware.features.extractor import Extractor

    if time.time() > deadline:
        return []
    stored = np.load(folder / f"{name}.npz")
    x, y = stored["x"].astype(np.float32) / 255, stored["y"].astype(np.int64)
    chain = [features.build(described) for described in representations(name)[representation]]
    began = time.process_time()
    parts = []
    for at in range(0, len(x), 128):
        if time.time() > deadline:
            return []
        rows = x[at : at + 128]
        for feature in chain:
            rows = feature(rows, None)
        parts.append(np.asarray(rows).reshape(len(rows), -1))
    milliseconds = 1000 * (time.process_time() - began) / len(x)
    rows = np.concatenate(parts)
    widths = chain[0].parts if isinstance(chain[0], Extractor) and chain[0].small else ()
    facts = {"data": name, "representation": representation, "milliseconds": round(milliseconds, 2)}
    return [facts | cell for cell in scores(rows if widths else narrowed(rows), y, deadline, widths)]


def narrowed(rows: np.ndarray) -> np.ndarray:
    """Return the rows in coordinates of their own span; norms, inner products and isotropic noise are unchanged."""
    if rows.shape[1] <= len(rows):
        return rows
    rows = rows.astype(np.float64)
    values, vectors = np.linalg.eigh(rows @ rows.T)
    return (vectors * np.sqrt(np.maximum(values, 0))).astype(np.float32)


def scores(rows: np.ndarray, y: np.ndarray, deadline: float, parts: Parts = ()) -> Iterator[dict[str, Any]]:
    """Yield the mean score of linear heads over seeds, for each epsilon and head; `parts` are weighed."""
    from privaware import accounting
    from privaware.data import Data
    from privaware.noise import Rng
    from privaware.schema import Schema

    images = rows.reshape(len(rows), 1, 1, -1)
    count = len(rows) * 4 // 5
    for epsilon in EPSILONS:
        for head, settings in (WEIGHED if parts else HEADS).items():
            if time.time() > deadline:
                return
            classes = tuple(str(code) for code in range(int(y.max()) + 1))
            schema = Schema(form="image", shape=(1, 1, rows.shape[1]), classes=classes, rows=count)
            learner = with_parts(Linear(features=[{"name": "bounded"}], **settings), parts)
            noise = accounting.calibrate(lambda noise, of=learner, at=schema: of.cost(at, noise), epsilon, DELTA)
            train = Data(schema=schema, x=images[:count], y=y[:count])
            held_out = Data(schema=schema, x=images[count:], y=y[count:])
            models = [learner.run(train, noise, Rng(seed)) for seed in range(SEEDS)]
            score = np.mean([np.mean(model.predictions(held_out) == held_out.y) for model in models])
            constant = np.bincount(y[count:]).max() / (len(y) - count)
            yield {
                "rows": count,
                "epsilon": epsilon,
                "head": head,
                "score": round(float(score), 4),
                "constant": round(float(constant), 4),
            }


def with_parts(learner: Linear, parts: Parts) -> Linear:
    """Return the learner for rows that already have these parts."""
    object.__setattr__(learner, "_parts", lambda schema: parts)
    return learner


def shipped(measured: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one cell for each set and epsilon, with the score of every representation."""
    merged: dict[tuple[str, float], dict[str, Any]] = {}
    for cell in measured:
        key = cell["data"], cell["epsilon"]
        facts = {name: cell[name] for name in ("data", "rows", "epsilon", "constant")}
        facts["colours"] = 3 if cell["data"] in COLOURS else 1
        of = merged.setdefault(key, {**facts, "scores": {}})
        of["scores"][cell["representation"] + cell["head"]] = cell["score"]
    return [merged[key] for key in sorted(merged)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--only", nargs="+", help="the representations to measure; left out, all of them")
    parser.add_argument("--sets", nargs="+", help="the sets to measure; left out, all of them")
    parser.add_argument("--ship", action="store_true", help="write the evidence of the package")
    options = parser.parse_args()
    deadline = time.time() + options.seconds
    if not list(options.folder.glob("*.npz")):
        from research.comparisons._image_sets import write

        write(options.folder)
    store = options.folder / "scores.jsonl"
    known = [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []
    measured = {(cell["data"], cell["representation"]) for cell in known}
    names = sorted(file.stem for file in options.folder.glob("*.npz"))
    names = [name for name in names if name in (options.sets or names)]
    jobs = [(options.folder, name, each, deadline) for name in names for each in representations(name)]
    jobs = [job for job in jobs if (job[1], job[2]) not in measured and job[2] in (options.only or [job[2]])]
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool, store.open("a") as file:
        for found in pool.imap_unordered(cells, jobs, chunksize=1):
            file.writelines(json.dumps(cell) + "\n" for cell in found)
            file.flush()
            known += found
    if options.ship:
        lines = ",\n".join(json.dumps(cell) for cell in shipped(known))
        EVIDENCE.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
