"""Tramer and Boneh on scattering features: Tables 1, 2, 3 and 19 and Figures 1, 2, 4 and 10, one command.

    python -m benchmarks.tramer_boneh_scatter --device cuda --out FOLDER --limit 300
    python -m benchmarks.tramer_boneh_scatter --page FOLDER

Every finished cell is a line of FOLDER/cells.jsonl and is not run again; the most important cells come
first, and none is begun after `--limit` seconds. A cell that fails is told and the others go on. Noise
comes from `tramer_boneh_prices.json` (made by `benchmarks.tramer_boneh_prices`), so no accountant is
needed here. Settings are those of the paper's Tables 10, 12, 13, 15 and 16: clipping norm 0.1, momentum
0.9, learning rate base x B / 512, floor(N / B) steps an epoch. Pixels of CIFAR-10 are standardised by
the usual constants before scattering, as in the authors' code. `--quick` is a look at every kind of
cell on a few rows. Data come from $PRIVAWARE_DATA.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._tramer_boneh_engine import from_pixels, on_pixels, together, trained
from benchmarks._tramer_boneh_features import Bench
from benchmarks._tramer_boneh_settings import BATCHES, BEST, EPOCHS, KINDS, PRICES, RATES, SEEDS, Setting
from benchmarks._tramer_boneh_stacks import beside, grid, iterated, sizes, table2
from privaware.features.scatter import Scatter


def scatter_check(bench: Bench) -> dict[str, Any]:
    """Scattering here against the same on a processor, and how long 60,000 images take."""
    made = {}
    for shape, transform in (
        ((64, 1, 28, 28), Scatter()),
        ((64, 3, 32, 32), Scatter()),
        ((8, 2, 45, 61), Scatter(J=3, L=6)),
        ((4, 1, 160, 128), Scatter(J=3, L=8)),
    ):
        x = torch.rand(shape, generator=torch.Generator().manual_seed(1))
        want, got = transform(x), transform(x.to(bench.device)).cpu()
        key = " x ".join(map(str, shape)) + f", J={transform.J}, L={transform.L}"
        made[key] = float((got - want).norm() / want.norm())
    count = 600 if bench.quick else 60_000
    x = torch.rand((count, 1, 28, 28), device=bench.device)
    times = []
    for _ in range(2):
        _synchronised(bench.device)
        began = time.perf_counter()
        Scatter()(x)
        _synchronised(bench.device)
        times.append(time.perf_counter() - began)
    return {"relative errors": made, "images": count, "seconds of 28 x 28": times}


def _synchronised(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


Cell = tuple[str, Callable[[], dict[str, Any]]]


def cells(bench: Bench, done: set[str]) -> Iterator[Cell]:
    """Everything, the most important and cheapest first."""
    yield "scatter", partial(scatter_check, bench)
    for setting in BEST[:5]:
        yield from seeds(bench, "best", setting)
    yield from seeds(bench, "best", BEST[5], every=5)
    for setting in (BEST[2], BEST[0], BEST[5], BEST[3]):
        yield from seeds(bench, "floored 8", replace(setting, kind="floored 8"), every=5)
    for setting in (BEST[2], BEST[0]):
        yield from seeds(bench, "exact 8", replace(setting, kind="exact 8"), every=5)
    for name, batch in product(RATES, reversed(BATCHES)):
        yield f"grid {name} {batch}", partial(grid, bench, name, batch)
    for setting in BEST[:3]:
        yield from seeds(bench, "shuffled", setting, sampler="shuffled", every=5)
    for rows, seed in product((10_000, 25_000, 50_000), SEEDS):
        yield f"sizes {rows} {seed}", partial(sizes, bench, rows, seed)
    for name, seed in product(RATES, SEEDS):
        yield f"table2 {name} {seed}", partial(table2, bench, name, seed)
    for seed in SEEDS:
        yield f"beside {seed}", partial(beside, bench, seed)
        for batch in (2048, 512, 128):
            yield f"iterated {batch} {seed}", partial(iterated, bench, batch, seed)
    for rows, seed in product((10_000, 25_000), SEEDS):
        small = replace(BEST[5], kind="floored 8", rows=rows, base_lr=0.125)
        made = priced(small, 60)
        yield f"sizes cnn {rows} {seed}", partial(trained, bench, made, seed, every=50)
    for (rows, epochs), seed in product(((10_000, 30), (25_000, 60)), SEEDS):
        small = replace(BEST[5], head="pixels", kind="none", rows=rows, base_lr=0.125)
        made = priced(small, epochs)
        yield f"sizes pixels {rows} {seed}", partial(on_pixels, bench, made, seed)
    for name, seed in product(("mnist", "fashion_mnist"), SEEDS):
        yield f"pixels {name} {seed}", partial(from_pixels, bench, name, seed)
    yield from part_of_grid(bench, "pixels", "raw point", ("none",), done)
    yield from part_of_grid(bench, "cnn", "point", KINDS, done)
    for seed in SEEDS:
        yield f"pixels cifar10 {seed}", partial(from_pixels, bench, "cifar10", seed)
    for kind in KINDS:
        yield f"seen cifar10 8192 {kind}", partial(grid, bench, "cifar10", 8192, (kind,), seen=True)


def seeds(bench: Bench, what: str, setting: Setting, **more: Any) -> Iterator[Cell]:
    for seed in SEEDS:
        name = f"{what} {setting.data} {setting.head} {seed}"
        yield name, partial(trained, bench, setting, seed, **more)


def priced(setting: Setting, epochs: int) -> Setting:
    """Steps and noise of Figure 4 for the number of rows; epochs are those of 50,000 rows."""
    price = PRICES["sizes"][f"{setting.rows} {epochs}"]
    return replace(setting, noise=price["noise"], steps=price["steps"])


def part_of_grid(bench: Bench, head: str, word: str, kinds: tuple[str, ...], done: set[str]) -> Iterator[Cell]:
    """Points of Table 12 for a CNN in a fixed random order, the data sets in turn; the limit ends them.

    On the small images the points that differ in learning rate alone and are not done are one population; on CIFAR-10
    one network fills a GPU.
    """
    orders = []
    for name, rates in RATES.items():
        sets = [(rate,) for rate in rates] if name == "cifar10" else [rates]
        points = list(product(BATCHES, EPOCHS[name], kinds, sets))
        random.Random(f"grid {name}").shuffle(points)
        orders.append([(name, *point) for point in points])
    for some in zip_longest(*orders):
        for name, batch, epochs, kind, rates in filter(None, some):
            whole = Setting(data=name, head=head, batch=batch, base_lr=0, epochs=epochs, kind=kind)
            each = {f"{word} {name} {batch} {epochs} {lr:g} {kind}": replace(whole, base_lr=lr) for lr in rates}
            left = {key: setting for key, setting in each.items() if key not in done}
            if left:
                yield f"{word} {name} {batch} {epochs} {kind}", partial(points_of, bench, left)


def points_of(bench: Bench, settings: dict[str, Setting]) -> dict[str, Any]:
    began = time.perf_counter()
    found = together(bench, list(settings.values()), 0)
    seconds = (time.perf_counter() - began) / len(found)
    return {"each": {key: {"seconds": seconds, **one} for key, one in zip(settings, found)}}


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--device", default="cpu")
    made.add_argument("--out", type=Path)
    made.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    made.add_argument("--only", nargs="*", default=[""], help="beginnings of cells' names")
    made.add_argument("--most", type=int, default=10**6, help="at most so many cells")
    made.add_argument("--quick", action="store_true")
    made.add_argument("--page", type=Path, help="write docs/results from a folder of finished cells")
    given = made.parse_args()
    if given.page:
        from benchmarks._tramer_boneh_page import write

        write(given.page)
        return
    began, bench = time.perf_counter(), Bench(given.device, given.quick)
    store = given.out / "cells.jsonl"
    given.out.mkdir(parents=True, exist_ok=True)
    lines = store.read_text().splitlines() if store.exists() else []
    done = {named(json.loads(line)) for line in lines}
    failed = []
    for key, run in cells(bench, done):
        wanted = key not in done and key.startswith(tuple(given.only))
        if not wanted or given.most <= 0:
            continue
        start = time.perf_counter()
        if start - began > given.limit:
            print(f"stopped at {start - began:.0f} s before {key}", flush=True)
            break
        given.most -= 1
        try:
            found = run()
        except Exception:
            traceback.print_exc()
            failed.append(key)
            continue
        gc.collect()  # a stack and its graph refer to each other, and hold memory until they are found
        if given.device.startswith("cuda"):
            torch.cuda.empty_cache()
        seconds = time.perf_counter() - start
        with store.open("a") as file:
            for name, one in found.get("each", {key: found}).items():
                line = {"cell": name, "seconds": seconds, "device": given.device, **one}
                file.write(json.dumps(line) + "\n")
        print(f"{start - began:6.1f} s + {seconds:5.1f}: {key}: {told(found)}", flush=True)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def named(line: dict[str, Any]) -> str:
    """The name of a cell, also of one that `privaware.papers` stored."""
    if "cell" in line:
        return str(line["cell"])
    words, at = line["item"].split("/"), line["settings"]
    if words[1] == "table3" and words[2] in ("cnn", "pixels"):
        word = "point" if words[2] == "cnn" else "raw point"
        return f"{word} {words[3]} {at['batch']} {at['epochs']} {at['base_lr']:g} {at['kind']}"
    return str(line["item"])


def told(found: dict[str, Any]) -> str:
    if "each" in found or "points" in found:
        points = found["each"].values() if "each" in found else found["points"]
        scores = [100 * point["score"] for point in points]
        return f"{min(scores):.2f} to {max(scores):.2f}, median {np.median(scores):.2f}"
    if "kinds" in found:
        last = found["curve"][-1]
        return ", ".join(f"{k} {100 * s:.2f}" for k, s in zip(found["kinds"], last[1:]))
    if "score" in found:
        return f"{100 * found['score']:.2f}, best {100 * found.get('best', found['score']):.2f}"
    return str(found)


if __name__ == "__main__":
    main()
