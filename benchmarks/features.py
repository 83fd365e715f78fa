"""Feature selection under privacy, against the tables and figures of Bao, Bauer and Bindschaedler.

    python -m benchmarks.features timing          # seconds of each selector on Breast Cancer
    python -m benchmarks.features breast          # table X and figure 4: minutes on two processors
    python -m benchmarks.features charged         # the same with the choice of columns charged
    python -m benchmarks.features adult           # table XVI and figure 3, coarsely
    python -m benchmarks.features adult --repeats 1000 --every 1 --device cuda      # in full
    python -m benchmarks.features descent         # tables II and XVIII
    python -m benchmarks.features write           # docs/results/features.md and its plots

Every piece writes one file of numbers, and goes on where it was interrupted. The data are public
benchmarks: test accuracies are measured freely here, and none of it is a release.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privaware import datasets
from privaware.data import Data
from privaware.learn.objective import fit_many
from privaware.noise import Rng
from privaware.schema import Column, Schema
from privaware.select._genetic import Evolution
from privaware.select._merit import best_first, merits
from privaware.select._tables import release, uncertainties

STORE = Path("docs/results/features")
NONE = 1e9
"""The budget that the paper takes for no privacy at all."""

TABLE_X = (0.01, 0.1, 0.5, 1, 1.5, 2, 5, 10, 20, 25, 30, 35, 40)
FIGURE_4 = (0.5, 1, 2, 5, 10, 20, 50, 100)
FIGURE_3 = (0.1, 0.5, 1, 2, 5, 10, 20)
TABLE_XVI = (0.1, 0.05, 0.01, 0.001, 0.0001)
CROSSING = (10, 20, 30, 40, 50, 60, 70, 80, 100, 150, 200, 400)


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Columns between 0 and 1, the attribute that each belongs to, and class 1 against class 0."""

    names: tuple[str, ...]
    attribute: np.ndarray
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    @property
    def constant(self) -> float:
        """Test accuracy of the training rows' more frequent class."""
        return float((self.y_test == (self.y.mean() > 0.5)).mean())

    def data(self) -> Data:
        """The training rows as a table whose columns can be selected."""
        columns = tuple(Column(name=name, low=0, high=1) for name in self.names)
        schema = Schema(columns=columns, classes=("no", "yes"), rows=len(self.y))
        return Data(schema=schema, x=self.x, y=self.y.astype(np.int64))

    def norms(self, masks: np.ndarray) -> np.ndarray:
        """Public bounds on the length of rows with a constant: at most 1 for each attribute."""
        touched = np.zeros((len(masks), int(self.attribute.max()) + 1), dtype=bool)
        for at, attribute in enumerate(self.attribute):
            touched[:, attribute] |= masks[:, at]
        return np.asarray(np.sqrt(touched.sum(axis=1) + 1.0))


def breast() -> Table:
    """43 columns: the categories that occur among all 286 rows, "?" among them."""
    loaded = datasets.load("breast_cancer")
    whole = np.concatenate([loaded.train.x, loaded.test.x])
    found = [
        (at, code, f"{column.name}={word}")
        for at, column in enumerate(loaded.train.schema.used)
        for code, word in enumerate(column.categories)
        if (whole[:, at] == code).any()
    ]
    parts = [
        np.column_stack([part.x[:, at] == code for at, code, _ in found]).astype(float)
        for part in (loaded.train, loaded.test)
    ]
    return Table(
        names=tuple(name for _, _, name in found),
        attribute=np.array([at for at, _, _ in found]),
        x=parts[0], y=loaded.train.y, x_test=parts[1], y_test=loaded.test.y,
    )  # fmt: skip


NUMBERS = {"age": (17, 90), "fnlwgt": (0, 1_500_000), "education-num": (1, 16), "capital-gain": (0, 99_999),
           "capital-loss": (0, 5_000), "hours-per-week": (1, 99)}  # fmt: skip


def adult() -> Table:
    """108 columns: 102 categories that occur in the training file, "?" among them, and six numbers.

    22,750 and 9,750 of the training file's rows by a fixed public order, numbers scaled by public bounds.
    """
    import pandas as pd

    from privaware.datasets._dataset import order

    names = [column.name for column in datasets.schema("adult").columns]
    frame = pd.read_csv(
        datasets.path("adult") / "adult.data", header=None, names=[*names, "income"],
        skipinitialspace=True, keep_default_na=False,
    )  # fmt: skip
    columns, labels, owner = [], [], []
    for at, name in enumerate(names):
        if name in NUMBERS:
            low, high = NUMBERS[name]
            columns.append(np.clip((frame[name].to_numpy(float) - low) / (high - low), 0, 1))
            labels.append(name)
            owner.append(at)
            continue
        for word in sorted(frame[name].unique()):
            columns.append((frame[name] == word).to_numpy(float))
            labels.append(f"{name}={word}")
            owner.append(at)
    x, y = np.column_stack(columns), (frame["income"] == ">50K").to_numpy(np.int64)
    at = order("adult", len(x))
    train, test = at[:22_750], at[22_750:32_500]
    return Table(names=tuple(labels), attribute=np.array(owner), x=x[train], y=y[train], x_test=x[test],
                 y_test=y[test])  # fmt: skip


def shared(table: Table, bins: int = 2) -> np.ndarray:
    """Exact symmetrical uncertainties, as the paper's selectors see them."""
    return uncertainties(release(table.data(), bins, 1e-9, Rng(seed=0)))


def accuracies(table: Table, masks: np.ndarray, epsilons: np.ndarray, rng: Rng) -> np.ndarray:
    """Test accuracies of as many private models: the published analysis, one row replaced, ridge 1."""
    weights = fit_many(
        _with_one(table.x), table.y, masks=_with_one(masks).astype(bool), epsilons=epsilons, rng=rng,
        norm=table.norms(masks), ridge=1.0, relation="replace_one", analysis="chaudhuri",
    )  # fmt: skip
    return scored(table, weights)


def scored(table: Table, weights: np.ndarray) -> np.ndarray:
    right = (_with_one(table.x_test) @ weights.T > 0) == table.y_test[:, None]
    return np.asarray(right.mean(axis=0))


def _with_one(rows: np.ndarray) -> np.ndarray:
    return np.hstack([rows.astype(float), np.ones((len(rows), 1))])


def prefix(order: list[int], size: int, width: int) -> np.ndarray:
    return np.isin(np.arange(width), order[:size])


def summary(values: np.ndarray) -> list[float]:
    """Mean and spread, in per cent."""
    return [round(100 * float(np.mean(values)), 3), round(100 * float(np.std(values)), 3)]


# Pieces. Each yields (key, value) and skips keys that are there.


def breast_piece(done: dict[str, Any], repeats: int) -> Iterator[tuple[str, Any]]:
    table = breast()
    width, known = len(table.names), shared(table)
    order, merit = best_first(known)
    search = Evolution(
        population=5000, generations=10, keep=0.2, crossover=0.7, mutation=0.2, most=width
    )
    began = time.perf_counter()
    genetic = search.search(width, lambda masks: merits(masks, known), np.random.default_rng(0))
    size = int(genetic.sum())
    yield "facts", {
        "names": table.names, "rows": len(table.y), "constant": table.constant, "order": order,
        "merit": merit, "cfs_ga": [table.names[at] for at in np.flatnonzero(genetic)],
        "cfs_ga seconds": time.perf_counter() - began,
    }  # fmt: skip
    for epsilon in (*TABLE_X, NONE):
        if f"X {epsilon:g}" not in done:
            yield (
                f"X {epsilon:g}",
                _table_x(table, epsilon, genetic, prefix(order, size, width), repeats),
            )
    for count in range(1, width + 1):
        if f"4 {count}" not in done:
            mask = prefix(order, count, width)
            each = [(epsilon, repeats) for epsilon in FIGURE_4] + [(NONE, 1)]
            yield f"4 {count}", _curve(table, mask, each)
    for epsilon in CROSSING:
        for count in (1, width):
            if f"crossing {epsilon:g} {count}" not in done:
                mask = prefix(order, count, width)
                yield f"crossing {epsilon:g} {count}", _curve(table, mask, [(epsilon, repeats)])


def _curve(table: Table, mask: np.ndarray, each: list[tuple[float, int]]) -> dict[str, list[float]]:
    epsilons = np.repeat([epsilon for epsilon, _ in each], [count for _, count in each])
    masks = np.broadcast_to(mask, (len(epsilons), len(mask)))
    found = accuracies(table, masks, epsilons, Rng(seed=int(mask.sum())))
    return {f"{epsilon:g}": summary(found[epsilons == epsilon]) for epsilon, _ in each}


def _table_x(
    table: Table, epsilon: float, genetic: np.ndarray, greedy: np.ndarray, repeats: int
) -> dict[str, Any]:
    width, rng = len(genetic), Rng(seed=round(1e4 * min(epsilon, 1e5)))
    drawn = np.array([rng.initial.permutation(width) < genetic.sum() for _ in range(repeats)])
    began, found = time.perf_counter(), []
    for _ in range(3):
        found.append(pafs_as_published(table, epsilon, rng))
    seconds = (time.perf_counter() - began) / len(found)
    masks = {
        "All": np.ones((repeats, width), dtype=bool),
        "PAFS": np.array([found[at % len(found)] for at in range(repeats)]),
        "CFS-Greedy": np.broadcast_to(greedy, (repeats, width)),
        "CFS-GA": np.broadcast_to(genetic, (repeats, width)),
        "Random": drawn,
    }
    made = {
        name: summary(accuracies(table, mask, np.full(repeats, epsilon), rng)) for name, mask in masks.items()
    }  # fmt: skip
    return {**made, "PAFS seconds": seconds, "PAFS sizes": [int(mask.sum()) for mask in found]}


def pafs_as_published(table: Table, epsilon: float, rng: Rng) -> np.ndarray:
    """Fitness is one private model's accuracy on the test rows: not private, kept to compare with."""
    seen: dict[bytes, float] = {}

    def fitness(masks: np.ndarray) -> np.ndarray:
        keys = [line.tobytes() for line in np.packbits(masks, axis=1)]
        new = list({key: at for at, key in enumerate(keys) if key not in seen}.values())
        if new:
            found = accuracies(table, masks[new], np.full(len(new), epsilon), rng)
            seen.update((keys[at], float(score)) for at, score in zip(new, found, strict=True))
        return np.array([seen[key] for key in keys])

    width = len(table.names)
    search = Evolution(
        population=600, generations=10, keep=0.2, crossover=0.7, mutation=0.2, most=width
    )
    return search.search(width, fitness, rng.initial)


def charged_piece(done: dict[str, Any], repeats: int) -> Iterator[tuple[str, Any]]:
    """Half of the budget chooses, half trains; one row added or removed, the tight analysis."""
    from privaware import accounting
    from privaware.select.cfs_ga import CfsGa
    from privaware.select.cfs_greedy import CfsGreedy
    from privaware.select.pafs import Pafs
    from privaware.select.top import Top
    from privaware.select.worth import Worth

    table = breast()
    data = table.data()
    places = {name: at for at, name in enumerate(table.names)}
    selectors: dict[str, tuple[Any, int]] = {
        "all": (None, repeats), "cfs_greedy": (CfsGreedy(bins=2), repeats),
        "cfs_ga": (CfsGa(bins=2), 20), "top (3)": (Top(columns=3, bins=2), repeats),
        "worth": (Worth(bins=2), 100), "pafs": (Pafs(), 5),
        "pafs, drawn alike": (Pafs(models=300, adaptive=False), 20),
    }  # fmt: skip
    for epsilon in (1.0, 5.0, 10.0, 20.0, 40.0):
        for name, (selector, choices) in selectors.items():
            key = f"charged {epsilon:g} {name}"
            if key in done:
                continue
            share, began = (0.5 if selector else 1.0), time.perf_counter()
            kept = np.ones((repeats, len(places)), dtype=bool)
            if selector is not None:
                noise = accounting.calibrate(
                    lambda level, s=selector: s.cost(data.schema, level), epsilon / 2, 1e-5
                )
                for at in range(choices):
                    names = selector.run(data, noise, Rng(seed=at))
                    kept[at::choices] = np.isin(np.arange(len(places)), [places[n] for n in names])
            seconds = time.perf_counter() - began
            weights = fit_many(
                _with_one(table.x), table.y, masks=_with_one(kept).astype(bool), rng=Rng(seed=1),
                epsilons=np.full(repeats, share * epsilon), norm=table.norms(kept),
            )  # fmt: skip
            size = float(kept.sum(axis=1).mean())
            yield key, {"score": summary(scored(table, weights)), "size": size,
                        "choices": choices, "seconds": seconds}  # fmt: skip


def timing_piece(done: dict[str, Any], repeats: int) -> Iterator[tuple[str, Any]]:
    """Selectors on the 43 columns, at the noise of about epsilon 2.31 (and 0.1 for each model of PAFS)."""
    from privaware.select.cfs_ga import CfsGa
    from privaware.select.cfs_greedy import CfsGreedy
    from privaware.select.pafs import Pafs
    from privaware.select.top import Top
    from privaware.select.worth import Worth

    data = breast().data()
    selectors: dict[str, tuple[Any, float]] = {
        "cfs_greedy": (CfsGreedy(bins=2), 1.75), "cfs_ga, 5,000 x 10": (CfsGa(bins=2), 1.75),
        "top": (Top(bins=2), 1.75), "worth": (Worth(bins=2), 1.75), "pafs, 600 x 10": (Pafs(), 10.0),
    }  # fmt: skip
    for name, (selector, noise) in selectors.items():
        spans = []
        for seed in range(repeats):
            wall, processor = time.perf_counter(), time.process_time()
            selector.run(data, noise, Rng(seed=seed))
            spans.append((time.perf_counter() - wall, time.process_time() - processor))
        yield name, dict(zip(("wall", "processor"), np.min(spans, axis=0).tolist(), strict=True))


def adult_piece(
    done: dict[str, Any], repeats: int, every: int, device: str
) -> Iterator[tuple[str, Any]]:
    from benchmarks._newton import Newton

    table = adult()
    width = len(table.names)
    order, merit = best_first(shared(table, bins=8))
    yield "facts", {"names": table.names, "rows": len(table.y), "constant": table.constant,
                    "order": order, "merit": merit, "repeats": repeats}  # fmt: skip
    solver = Newton(table, device)
    plain = np.array(
        [(name in NUMBERS and name != "fnlwgt") or name == "sex=Male" for name in table.names]
    )
    for name, mask in (("without", plain), ("with", np.ones(width, dtype=bool))):
        for epsilon in (*TABLE_XVI, NONE):
            key = f"XVI {epsilon:g} {name}"
            if key not in done:
                count = 1 if epsilon == NONE else repeats
                yield key, summary(solver.accuracies(mask, epsilon, count))
    sizes = sorted({*range(1, 13), *range(12, width + 1, every), width})
    for count in sizes:
        mask = prefix(order, count, width)
        for epsilon in (*FIGURE_3, NONE):
            key = f"3 {count} {epsilon:g}"
            if key not in done:
                times = 1 if epsilon == NONE else repeats
                yield key, summary(solver.accuracies(mask, epsilon, times))


# Tables II and XVIII: softmax of two units by noisy gradient descent.

DESCENT: dict[str, Any] = {
    "breast": {"sizes": (2, 10, 20, 30, 40), "rate": 1.0, "steps": 40, "epsilons": (0.236, 0.014)},
    "adult": {"sizes": (2, 28, 48, 68, 88), "rate": 250 / 22_750, "steps": 3640, "epsilons": (0.0196, 0.00817)},
}  # fmt: skip
LRS = (0.05, 0.5, 5.0)


def descent_piece(done: dict[str, Any], repeats: int) -> Iterator[tuple[str, Any]]:
    from privaware import accounting
    from privaware.events import Gaussian

    for name, facts in DESCENT.items():
        table = breast() if name == "breast" else adult()
        order, _ = best_first(shared(table, bins=2 if name == "breast" else 8))
        width = len(order)
        for epsilon in (*facts["epsilons"], None):
            noise = 0.0
            if epsilon is not None:
                noise = accounting.calibrate(
                    lambda z, f=facts: f["steps"] * Gaussian(noise=z).sampled(rate=f["rate"]), epsilon, 1e-5
                )  # fmt: skip
            for size in (*facts["sizes"], width):
                key = f"{name} {epsilon} {size}"
                if key in done:
                    continue
                mask = prefix(order, size, width)
                few = {
                    lr: np.mean([descend(table, mask, noise, lr, facts, seed) for seed in range(3)])
                    for lr in LRS
                }
                lr = max(few, key=lambda lr: float(few[lr]))
                runs = np.array(
                    [descend(table, mask, noise, lr, facts, 3 + at) for at in range(repeats)]
                )
                yield key, {"score": summary(runs), "lr": lr, "noise": noise}


def descend(
    table: Table, mask: np.ndarray, noise: float, lr: float, facts: dict[str, Any], seed: int
) -> float:
    """One run: Poisson batches, gradients cut to length 1, noise, a step over the expected batch."""
    rng = Rng(seed=seed)
    x, y = _with_one(table.x[:, mask]), np.eye(2)[table.y]
    length = np.sqrt((x**2).sum(axis=1))
    weights = np.zeros((x.shape[1], 2))
    for _ in range(facts["steps"]):
        rows = np.flatnonzero(rng.poisson(len(x), facts["rate"]))
        logits = x[rows] @ weights
        logits -= logits.max(axis=1, keepdims=True)
        apart = np.exp(logits)
        apart = apart / apart.sum(axis=1, keepdims=True) - y[rows]
        norms = length[rows] * np.sqrt((apart**2).sum(axis=1))
        total = x[rows].T @ (apart * np.minimum(1, 1 / np.maximum(norms, 1e-12))[:, None])
        noisy = rng.gaussian(total, noise=noise, sensitivity=1.0) if noise else total
        weights -= lr * noisy / (facts["rate"] * len(x))
    found = (_with_one(table.x_test[:, mask]) @ weights).argmax(axis=1)
    return float((found == table.y_test).mean())


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    arguments.add_argument(
        "piece", choices=["timing", "breast", "charged", "adult", "descent", "write"]
    )
    arguments.add_argument("--repeats", type=int)
    arguments.add_argument("--every", type=int, default=8)
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--store", type=Path, default=STORE)
    given = arguments.parse_args()
    if given.piece == "write":
        from benchmarks._features_page import write

        write(given.store)
        return
    given.store.mkdir(parents=True, exist_ok=True)
    usual = {"timing": 3, "breast": 1000, "charged": 200, "adult": 30, "descent": 10}[given.piece]
    repeats = given.repeats or usual
    path = given.store / f"{given.piece}.json"
    done: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    head = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=False).stdout.strip()
    done["run"] = {
        "repeats": repeats,
        "commit": commit,
        "device": given.device,
        "date": time.strftime("%Y-%m-%d"),
    }
    pieces = {
        "breast": lambda: breast_piece(done, repeats), "charged": lambda: charged_piece(done, repeats),
        "adult": lambda: adult_piece(done, repeats, given.every, given.device),
        "descent": lambda: descent_piece(done, repeats),
        "timing": lambda: timing_piece(done, repeats),
    }  # fmt: skip
    for key, value in pieces[given.piece]():
        done[key] = value
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(done, indent=1))
        partial.replace(path)
        print(key, value if key != "facts" else "", flush=True)


if __name__ == "__main__":
    main()
