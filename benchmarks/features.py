"""Feature selection under privacy, against the tables and figures of Bao, Bauer and Bindschaedler.

    python -m benchmarks.features timing          # seconds of each selector on Breast Cancer
    python -m benchmarks.features breast          # table X and figure 4: minutes on two processors
    python -m benchmarks.features charged         # the same with the choice of columns charged
    python -m benchmarks.features splits          # the same over other cuts into training and test rows
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
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._features_data import (
    NUMBERS,
    Table,
    accuracies,
    adult,
    breast,
    prefix,
    scored,
    shared,
    split,
    summary,
    with_one,
)
from benchmarks._features_descent import descent_piece
from privaware.learners.objective_perturbation import fit_many
from privaware.noise import Rng
from privaware.selectors._genetic import Evolution
from privaware.selectors._merit import best_first, merits

STORE = Path("docs/results/features")
NONE = 1e9
"""The budget that the paper takes for no privacy at all."""

TABLE_X = (0.01, 0.1, 0.5, 1, 1.5, 2, 5, 10, 20, 25, 30, 35, 40)
FIGURE_4 = (0.5, 1, 2, 5, 10, 20, 50, 100)
FIGURE_3 = (0.1, 0.5, 1, 2, 5, 10, 20)
TABLE_XVI = (0.1, 0.05, 0.01, 0.001, 0.0001)
ONE_HOT = (0.02, 0.03, 0.2, 0.5, 1, 2, 5, 10, 20)
"""Further budgets, to see where one-hot columns overtake the few that are left without."""
SIX = (6, 7, 8, 9, 12, 15)
"""Further budgets, to see where all columns of Adult overtake the best six."""
CROSSING = (10, 20, 22, 25, 27, 30, 40, 50, 60, 70, 80, 100, 150, 200, 400)


# Pieces. Each yields (key, value) and skips keys that are there.


def breast_piece(done: dict[str, Any], repeats: int) -> Iterator[tuple[str, Any]]:
    table = breast()
    width, known = len(table.names), shared(table)
    order, merit = best_first(known)
    search = Evolution(population=5000, generations=10, keep=0.2, crossover=0.7, mutation=0.2, most=width)
    began = time.perf_counter()
    genetic = search.search(width, lambda masks: merits(masks, known), np.random.default_rng(0))
    size = int(genetic.sum())
    yield (
        "facts",
        {
            "names": table.names,
            "rows": len(table.y),
            "constant": table.constant,
            "order": order,
            "merit": merit,
            "cfs_ga": [table.names[at] for at in np.flatnonzero(genetic)],
            "cfs_ga seconds": time.perf_counter() - began,
        },
    )
    for epsilon in (*TABLE_X, NONE):
        if f"X {epsilon:g}" not in done:
            yield (f"X {epsilon:g}", _table_x(table, epsilon, genetic, prefix(order, size, width), repeats))
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


def _table_x(table: Table, epsilon: float, genetic: np.ndarray, greedy: np.ndarray, repeats: int) -> dict[str, Any]:
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
    made = {name: summary(accuracies(table, mask, np.full(repeats, epsilon), rng)) for name, mask in masks.items()}
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
    search = Evolution(population=600, generations=10, keep=0.2, crossover=0.7, mutation=0.2, most=width)
    return search.search(width, fitness, rng.initial)


def charged_piece(done: dict[str, Any], repeats: int) -> Iterator[tuple[str, Any]]:
    """Half of the budget chooses, half trains; one row added or removed, the tight analysis."""
    from privaware import accounting
    from privaware.selectors.cfs_ga import CfsGa
    from privaware.selectors.cfs_greedy import CfsGreedy
    from privaware.selectors.pafs import Pafs
    from privaware.selectors.top import Top
    from privaware.selectors.worth import Worth

    table = breast()
    data = table.data()
    places = {name: at for at, name in enumerate(table.names)}
    selectors: dict[str, tuple[Any, int]] = {
        "all": (None, repeats),
        "cfs_greedy": (CfsGreedy(bins=2), repeats),
        "cfs_ga": (CfsGa(bins=2), 20),
        "top (3)": (Top(columns=3, bins=2), repeats),
        "worth": (Worth(bins=2), 100),
        "pafs": (Pafs(), 5),
        "pafs, drawn alike": (Pafs(models=300, adaptive=False), 20),
    }
    if "prices" not in done:
        yield "prices", _prices(data)
    for epsilon in (1.0, 5.0, 10.0, 20.0, 40.0):
        for name, (selector, choices) in selectors.items():
            key = f"charged {epsilon:g} {name}"
            if key in done:
                continue
            share, began = (0.5 if selector else 1.0), time.perf_counter()
            kept = np.ones((repeats, len(places)), dtype=bool)
            if selector is not None:
                noise = accounting.calibrate(lambda level, s=selector: s.cost(data.schema, level), epsilon / 2, 1e-5)
                for at in range(choices):
                    names = selector.run(data, noise, Rng(seed=at))
                    kept[at::choices] = np.isin(np.arange(len(places)), [places[n] for n in names])
            seconds = time.perf_counter() - began
            weights = fit_many(
                with_one(table.x),
                table.y,
                masks=with_one(kept).astype(bool),
                rng=Rng(seed=1),
                epsilons=np.full(repeats, share * epsilon),
                norm=table.norms(kept),
            )
            size = float(kept.sum(axis=1).mean())
            yield key, {"score": summary(scored(table, weights)), "size": size, "choices": choices, "seconds": seconds}


def _prices(data: Any) -> dict[str, float]:
    """What choosing costs at the paper's settings: every model of PAFS at 0.1, and CFS at its printed 2.31."""
    from privaware import accounting
    from privaware.events import Pure
    from privaware.selectors.cfs_greedy import CfsGreedy
    from privaware.selectors.pafs import Pafs

    schema, alike = data.schema, Pafs(models=2315, adaptive=False)
    models = {
        "2,315 models at 0.1, as the paper counts them": 2315 * Pure(epsilon=0.1),
        "6,000 models at 0.1, a number fixed in advance (`pafs`)": Pafs().cost(schema, 10.0),
        "best of 2,315 on average, drawn alike (`pafs`, not adaptive)": alike.cost(schema, 10.0),
    }
    counts = {
        "1,936 entropies at 0.01, as the paper's CFS": 1936 * Pure(epsilon=0.01),
        "all pairs of columns counted once, noise 1.75 (`cfs_greedy`, `cfs_ga`)": CfsGreedy(bins=2).cost(schema, 1.75),
    }
    return {
        name: accounting.epsilon(event, delta)
        for events, delta in ((models, 1e-6), (counts, 1e-5))
        for name, event in events.items()
    }


def timing_piece(done: dict[str, Any], repeats: int) -> Iterator[tuple[str, Any]]:
    """Selectors on the 43 columns, at the noise of about epsilon 2.31 (and 0.1 for each model of PAFS)."""
    from privaware.selectors.cfs_ga import CfsGa
    from privaware.selectors.cfs_greedy import CfsGreedy
    from privaware.selectors.pafs import Pafs
    from privaware.selectors.top import Top
    from privaware.selectors.worth import Worth

    data = breast().data()
    selectors: dict[str, tuple[Any, float]] = {
        "cfs_greedy": (CfsGreedy(bins=2), 1.75),
        "cfs_ga, 5,000 x 10": (CfsGa(bins=2), 1.75),
        "top": (Top(bins=2), 1.75),
        "worth": (Worth(bins=2), 1.75),
        "pafs, 600 x 10": (Pafs(), 10.0),
    }
    table, epsilons = breast(), np.repeat(np.array(TABLE_X, dtype=float), 1000)
    everything = np.ones((len(epsilons), len(table.names)), dtype=bool)
    work: dict[str, Any] = {
        name: lambda seed, s=selector, z=noise: s.run(data, z, Rng(seed=seed))
        for name, (selector, noise) in selectors.items()
    }
    work["1,000 repeats x 13 epsilons"] = lambda seed: accuracies(table, everything, epsilons, Rng(seed=seed))
    for name, once in work.items():
        spans = []
        for seed in range(repeats):
            wall, before = time.perf_counter(), os.times()
            once(seed)
            after = os.times()
            used = after.user - before.user + after.system - before.system
            spans.append((time.perf_counter() - wall, used))
        best = dict(zip(("wall", "processor"), np.min(spans, axis=0).tolist(), strict=True))
        if name not in done or best["wall"] < done[name]["wall"]:
            yield name, {**best, "load": round(os.getloadavg()[0], 2)}


def adult_piece(done: dict[str, Any], repeats: int, every: int, device: str) -> Iterator[tuple[str, Any]]:
    from benchmarks._newton import Newton

    table = adult()
    width = len(table.names)
    order, merit = best_first(shared(table, bins=8))
    yield (
        "facts",
        {
            "names": table.names,
            "rows": len(table.y),
            "constant": table.constant,
            "order": order,
            "merit": merit,
            "repeats": repeats,
        },
    )
    solver = Newton(table, device)

    shares: dict[str, dict[float, np.ndarray]] = {}

    def line(key: str, mask: np.ndarray, epsilons: tuple[float, ...]) -> dict[str, list[float]]:
        times = [1 if epsilon == NONE else repeats for epsilon in epsilons]
        found, rows = solver.scores(mask, np.repeat(np.array(epsilons, dtype=float), times))
        shares[key] = dict(zip(sorted(epsilons), rows, strict=True))
        parts = np.split(found, np.cumsum(times)[:-1])
        return {f"{e:g}": summary(part) for e, part in zip(epsilons, parts, strict=True)}

    plain = np.array([(name in NUMBERS and name != "fnlwgt") or name == "sex=Male" for name in table.names])
    pairs = {
        "XVI": {"XVI without": plain, "XVI with": np.ones(width, dtype=bool)},
        "six": {"3 6": prefix(order, 6, width), f"3 {width}": prefix(order, width, width)},
    }
    budgets = {"XVI": (*TABLE_XVI, *ONE_HOT, NONE), "six": (*FIGURE_3, *SIX, NONE)}
    for name, pair in pairs.items():
        if f"gap {name}" not in done:
            for key, mask in pair.items():
                yield key, line(key, mask, budgets[name])
            few, many = (shares[key] for key in pair)
            yield f"gap {name}", {f"{e:g}": _gap(few[e], many[e]) for e in budgets[name]}
    for count in dict.fromkeys([*range(1, 13), *range(12, width, every)]):
        if f"3 {count}" not in done:
            mask = prefix(order, count, width)
            yield f"3 {count}", line(f"3 {count}", mask, (*FIGURE_3, NONE))


def _gap(few: np.ndarray, many: np.ndarray) -> list[float]:
    """How much better few columns are, in points, and its standard error over test rows."""
    apart = 100 * (few - many)
    return [round(float(apart.mean()), 3), round(float(apart.std() / len(apart) ** 0.5), 3)]


def splits_piece(done: dict[str, Any], repeats: int) -> Iterator[tuple[str, Any]]:
    """Breast Cancer cut at random: mean accuracies of `repeats` models, one line a cut."""
    whole = breast()
    epsilons = sorted({*TABLE_X, *CROSSING})
    for seed in range(SPLITS):
        if f"split {seed}" in done:
            continue
        table, width = split(whole, seed), len(whole.names)
        order, _ = best_first(shared(table))
        rng, size = Rng(seed=seed), len(done.get("cfs_ga", [])) or 9
        sets = {"one": 1, "CFS-Greedy": size, "All": width}
        masks = {name: prefix(order, count, width) for name, count in sets.items()}
        masks["Random"] = rng.initial.permutation(width) < size
        made = {}
        for name, mask in masks.items():
            each = np.repeat(np.array(epsilons, dtype=float), repeats)
            found = accuracies(table, np.broadcast_to(mask, (len(each), width)), each, rng)
            mean = found.reshape(len(epsilons), repeats).mean(axis=1)
            made[name] = dict(zip(map("{:g}".format, epsilons), (100 * mean).round(2).tolist(), strict=True))
        yield f"split {seed}", {**made, "constant": round(100 * table.constant, 2)}
    for seed in range(SEARCHES):
        for epsilon in TABLE_X:
            if f"pafs {seed} {epsilon:g}" not in done:
                table, rng = split(whole, seed), Rng(seed=1000 + seed)
                mask = pafs_as_published(table, epsilon, rng)
                found = accuracies(table, np.tile(mask, (200, 1)), np.full(200, epsilon), rng)
                yield f"pafs {seed} {epsilon:g}", round(100 * float(found.mean()), 2)


SPLITS, SEARCHES = 100, 10


def commit() -> str:
    head = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(head, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("piece", choices=["timing", "breast", "splits", "charged", "adult", "descent", "write"])
    arguments.add_argument("--repeats", type=int)
    arguments.add_argument("--every", type=int, default=8)
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--store", type=Path, default=STORE)
    arguments.add_argument("--commit", help="of this tree, where git cannot say")
    given = arguments.parse_args()
    if given.piece == "write":
        from benchmarks._features_page import write

        write(given.store)
        return
    given.store.mkdir(parents=True, exist_ok=True)
    usual = {"timing": 5, "breast": 1000, "splits": 30, "charged": 200, "adult": 30, "descent": 10}
    repeats = given.repeats or usual[given.piece]
    path = given.store / f"{given.piece}.json"
    done: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    done["run"] = {
        "repeats": repeats,
        "commit": given.commit or commit(),
        "device": given.device,
        "date": time.strftime("%Y-%m-%d"),
        "load": round(os.getloadavg()[0], 2),
    }
    pieces = {
        "breast": lambda: breast_piece(done, repeats),
        "charged": lambda: charged_piece(done, repeats),
        "adult": lambda: adult_piece(done, repeats, given.every, given.device),
        "descent": lambda: descent_piece(done, repeats, given.device),
        "splits": lambda: splits_piece(done, repeats),
        "timing": lambda: timing_piece(done, repeats),
    }
    for key, value in pieces[given.piece]():
        done[key] = value
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(done, indent=1))
        partial.replace(path)
        print(key, value if key != "facts" else "", flush=True)


if __name__ == "__main__":
    main()
