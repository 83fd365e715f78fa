"""`fit` without options on texts on which no default was chosen.

    python -m research.comparisons.unseen_texts FOLDER [--texts NAME ...] [--epsilons E ...] [--seeds N ...]
        [--remember FILE]
    python -m research.papers._page unseen_texts

FOLDER holds the unpacked packages of `_unseen_text_sets.py`. `auto` is compared with the private constant at the same
budget, the constant without noise, and two methods without privacy, tuned by cross-validation: TF-IDF of words and
pairs with a linear SVM, and logistic regression on the outputs of the public network with hashed words. Runs are
seeded, for comparison only. `--remember FILE` caches the outputs of the public network, so that it reads each text once
for all runs; only the first run of a text includes that time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from privaware.features._public_text import NETWORK
from privaware.features.sentences import Sentences
from research.comparisons import _remembered, record
from research.comparisons._unseen_text_sets import READERS, load

ITEM = "benchmarks/unseen_texts"
OUT = Path("docs/results/unseen_texts")
LEARNERS = {"auto": "auto", "private constant": "majority"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--texts", nargs="+", default=list(READERS))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 0.1, 0.3])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--remember", type=Path, default=None)
    options = parser.parse_args()
    known = {} if options.remember is None else _remembered.read(options.remember)
    if options.remember is not None:
        _remembered.remember(known)
    for name in options.texts:
        labels, texts = load(name, options.folder)
        train = len(texts) * 4 // 5
        runs: list[dict[str, Any]] = [{"text": name, "method": method} for method in ("constant", "plain")]
        runs.append({"text": name, "method": "logistic regression", "network": NETWORK})
        runs += [
            {"text": name, "epsilon": epsilon, "seed": seed, "method": method}
            for seed in options.seeds
            for epsilon in options.epsilons
            for method in LEARNERS
        ]
        for settings in runs:
            if not _known(settings, options.out):
                began = time.perf_counter()
                score = (_private if "epsilon" in settings else _plain)(labels, texts, train, settings)
                facts = {"rows": train, "classes": len(set(labels)), "seconds": round(time.perf_counter() - began, 1)}
                record(options.out, ITEM, settings, {**facts, **score})
                print(json.dumps({**settings, **score}), flush=True)
        if options.remember is not None:
            _remembered.write(options.remember, known)


def _private(labels: list[str], texts: list[str], train: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the learner and the score of `fit` on a CSV file with no declared facts."""
    import pandas as pd

    from privaware import fit

    with tempfile.TemporaryDirectory() as folder:
        for name, part in (("train", slice(train)), ("test", slice(train, None))):
            frame = pd.DataFrame({"text": texts[part], "label": labels[part]})
            frame.to_csv(Path(folder, f"{name}.csv"), index=False)
        fitted = fit(
            Path(folder, "train.csv"),
            target="label",
            epsilon=settings["epsilon"],
            learner=LEARNERS[settings["method"]],
            test=Path(folder, "test.csv"),
            seed=settings["seed"],
        )
    return {"learner": fitted.learner, "score": fitted.internal["test_score"]}


def _plain(labels: list[str], texts: list[str], train: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the score of the most frequent class, of logistic regression, or of TF-IDF with a linear SVM."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import LinearSVC

    y, truth = np.array(labels[:train]), np.array(labels[train:])
    if settings["method"] == "constant":
        names, counts = np.unique(y, return_counts=True)
        return {"score": float(np.mean(truth == names[counts.argmax()]))}
    if "network" in settings:
        return {"score": float(np.mean(_of_network(texts, y, train) == truth))}
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2)
    search = GridSearchCV(LinearSVC(), {"C": [0.05, 0.2, 1.0, 5.0]}, cv=3).fit(words.fit_transform(texts[:train]), y)
    return {"score": float(np.mean(search.predict(words.transform(texts[train:])) == truth))}


def _of_network(texts: list[str], y: np.ndarray, train: int) -> np.ndarray:
    """Predict the held-out texts by logistic regression on the outputs of the public network, with hashed words."""
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    rows = csr_matrix(Sentences(words=0.5, slots=32_768)(np.array(texts, dtype=object)))
    search = GridSearchCV(LogisticRegression(max_iter=300), {"C": [3.0, 30.0, 300.0]}, cv=3).fit(rows[:train], y)
    return np.asarray(search.predict(rows[train:]))


def _known(settings: dict[str, Any], out: Path) -> bool:
    from privaware.bench._store import Store, cell_key

    return cell_key(ITEM, settings) in Store(out / "cells.jsonl").read()


if __name__ == "__main__":
    main()
