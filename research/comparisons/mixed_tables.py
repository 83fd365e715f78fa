"""`fit` without options on texts and on images with a further column, and on tables with a further text.

    python -m research.comparisons.mixed_tables [FOLDER] [--sets NAME ...] [--variants NAME ...] [--epsilons E ...]
        [--seeds N ...] [--remember FILE] [--limit SECONDS]
    python -m research.papers._page mixed

FOLDER holds the unpacked packages of `_text_sets.py`; tables come from `_development_tables.py`, and images are
built-in data sets, whose table names files of PNG (`--kinds` says that the column names images). A variant adds one
column to the rows: a random number, a random category, a number that depends on the class, or, to a table, a text drawn
from the SMS messages at random. Election tweets have informative columns of their own: the program that sent the
tweet and how often the tweet was repeated. The rows are given as a CSV file without a schema. Runs are seeded, for
comparison only. `--limit` starts no further run after this many seconds; a later call continues.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from research.comparisons import _remembered, record

ITEM = "benchmarks/mixed_tables"
OUT = Path("docs/results/mixed")
TRAIN, TEST = 2_500, 1_200
"""Rows that train, and rows that score."""
TEXTS = ("amazon", "election", "sms")
TABLES = ("credit_data", "mlc_churn")
IMAGES = ("digits", "fashion_mnist")
METHODS: dict[str, dict[str, Any]] = {
    "auto": {},
    "hashed to columns": {"learner": "fourier", "settings": {"count": 512, "share": 0.4}},
}
"""Options of `fit`: what `auto` takes, and what it took while a text beside other columns was hashed to 64 columns."""
VARIANTS = {"text": ("alone", "number", "category", "informative"), "table": ("alone", "text")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path())
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--sets", nargs="+", default=[*TEXTS, *TABLES, *IMAGES])
    parser.add_argument("--variants", nargs="+", default=["alone", "number", "category", "informative", "text"])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 0.3, 3.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--remember", type=Path, default=None)
    parser.add_argument("--limit", type=float, default=float("inf"))
    options = parser.parse_args()
    known = {} if options.remember is None else _remembered.read(options.remember)
    if options.remember is not None:
        _remembered.remember(known)
    _remembered.remember_photographs()
    began = time.monotonic()
    runs = [
        {"set": name, "variant": variant, "epsilon": epsilon, "seed": seed, "method": method}
        for seed in options.seeds
        for epsilon in options.epsilons
        for name in options.sets
        for variant in VARIANTS["table" if name in TABLES else "text"]
        if variant in options.variants
        for method in options.methods
        if method == "auto" or (variant != "alone" and name not in IMAGES)
    ]
    for settings in runs:
        if not _known(settings, options.out) and time.monotonic() - began < options.limit:
            result = measured(settings, options.folder)
            record(options.out, ITEM, settings, result)
            print(json.dumps({**settings, **result}), flush=True)
    if options.remember is not None:
        _remembered.write(options.remember, known)


def measured(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the learner, the score and the constant's score of `fit` on a CSV file."""
    from privaware import fit

    frame, target = _frame(str(settings["set"]), str(settings["variant"]), int(settings["seed"]), folder)
    with tempfile.TemporaryDirectory() as place:
        train, options = TRAIN if len(frame) > TRAIN else 4 * len(frame) // 5, dict(METHODS[settings["method"]])
        frame = frame.iloc[: train + TEST]
        if settings["set"] in IMAGES:
            options["kinds"] = {"scan": "image"}
            frame = frame.assign(scan=_written(frame["scan"], Path(place)))
        for name, part in (("train", slice(train)), ("test", slice(train, train + TEST))):
            frame.iloc[part].to_csv(Path(place, f"{name}.csv"), index=False)
        fitted = fit(
            Path(place, "train.csv"),
            target=target,
            epsilon=settings["epsilon"],
            test=Path(place, "test.csv"),
            seed=settings["seed"],
            ledger=Path(place, "ledger"),
            **options,
        )
    scores = {name: round(float(fitted.internal[f"{name}_score"] or 0.0), 4) for name in ("test", "constant")}
    return {"learner": fitted.learner, "score": scores["test"], "constant": scores["constant"], "rows": train}


def _written(images: Any, place: Path) -> list[str]:
    """Write images as PNG files into `place`, and return their names."""
    from PIL import Image

    names = [f"{at}.png" for at in range(len(images))]
    for name, image in zip(names, images, strict=True):
        Image.fromarray(np.round(255 * image[0]).astype(np.uint8)).save(place / name)
    return names


def _frame(name: str, variant: str, seed: int, folder: Path) -> tuple[Any, str]:
    """Return the rows of a set in an order of their own for each seed, with the column of the variant."""
    import pandas as pd

    from privaware import datasets
    from research.comparisons import _development_tables, _text_sets

    rng = np.random.default_rng([seed, 7])
    if name in TABLES:
        rows, labels, _ = _development_tables._frame(name, 0)
        frame = rows.assign(**{(target := "class"): np.asarray(labels)})
    elif name in IMAGES:
        loaded = datasets.load(name)
        labels = [f"class {y}" for part in (loaded.train, loaded.test) for y in part.y]
        frame, target = pd.DataFrame({"scan": [*loaded.train.x, *loaded.test.x], "class": labels}), "class"
    else:
        texts, labels = _text_sets.load(name, folder)
        frame, target = pd.DataFrame({"comment": texts, (target := "class"): labels}), "class"
        if name == "election" and variant == "informative":
            columns = _text_sets.columns(name, ("Source URL", "Retweet count"), folder)
            frame = frame.assign(program=columns[:, 0], repeated=columns[:, 1])
    frame = frame.iloc[np.random.default_rng(seed).permutation(len(frame))].reset_index(drop=True)
    codes = np.unique(frame[target].astype(str), return_inverse=True)[1]
    if variant == "number":
        frame = frame.assign(reading=rng.normal(size=len(frame)).round(3))
    if variant == "category":
        frame = frame.assign(shift=rng.choice(["early", "late", "night", "spare"], len(frame)))
    if variant == "informative" and name != "election":
        half = codes > codes.max() / 2 if name in IMAGES else codes
        frame = frame.assign(reading=(rng.normal(size=len(frame)) + 1.5 * half).round(3))
    if variant == "text":
        messages, _ = _text_sets.load("sms", folder)
        frame = frame.assign(note=rng.choice(messages, len(frame)))
    return frame, target


def _known(settings: dict[str, Any], out: Path) -> bool:
    from privaware.bench._store import Store, cell_key

    return cell_key(ITEM, settings) in Store(out / "cells.jsonl").read()


if __name__ == "__main__":
    main()
