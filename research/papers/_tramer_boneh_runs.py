"""How the items of Tramer and Boneh are run: their settings, and one function for each kind of cell."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from privaware.bench import Result, Settings
from research.papers import _tramer_boneh_prices as prices
from research.papers import grid
from research.papers._published import keyed, tables
from research.papers._runner import Bench
from research.papers._tramer_boneh_train import Setting, train

SEEDS = range(5)
ROWS = {"mnist": 60_000, "fashion_mnist": 60_000, "cifar10": 50_000}
SETTINGS = tables("tramer_boneh")["settings"]
BATCHES, KINDS, RATES, EPOCHS = (SETTINGS["table12"][name] for name in ("batches", "kinds", "rates", "epochs"))
TABLE13: dict[tuple[str, str], dict[str, Any]] = keyed(SETTINGS["table13"], 2)
TABLE16: dict[str, dict[int, tuple[int, float]]] = {
    head: {rows: (epochs, lr) for name, rows, epochs, lr in SETTINGS["table16"] if name == head}
    for head in ("linear", "cnn", "pixels")
}


def noise_of(bench: Bench, data: str, setting: Settings) -> float:
    """The noise of Table 12 for the published number of rows: classic epsilon 3 with the normalisation charged."""
    rows, batch, epochs = ROWS[data], setting["batch"], setting["epochs"]
    how, _, amount = setting.get("kind", "none").partition(" ")
    norm = int(amount) if how in ("private", "floored", "exact") else 0
    price = partial(prices.classic, rate=batch / rows, steps=epochs * (rows // batch), norm=norm)
    return bench.prices.look_up(f"table12 {rows} {batch} {epochs} {norm}", lambda: prices.bisected_noise(price))


def prepared(bench: Bench, data: str, head: str, settings: Settings) -> Setting:
    """The settings of a cell, completed by Table 13 and by the noise."""
    merged = {"data": data, "head": head, **TABLE13[data, head], **settings}
    if "noise" not in merged:
        merged["noise"] = noise_of(bench, data, merged)
    return Setting(**merged)


def table1(bench: Bench, settings: Settings, *, data: str, head: str, shuffled: bool = False, every: int = 1) -> Result:
    """One seed of Table 13's settings, scored after every so many epochs."""
    setting = prepared(bench, data, head, {"every": every, "shuffled": shuffled, **settings})
    return {} if bench.dry else train([setting], bench.device)[0]


def table2(bench: Bench, settings: Settings, *, data: str) -> Result:
    """Without noise: Table 10's settings, and what the same training reaches up to epoch 60."""
    plain = {"batch": 512, "base_lr": 4.0 if data == "fashion_mnist" else 2.0, "epochs": 60, "every": 2, "noise": 0.0}
    setting = prepared(bench, data, "linear", {"shuffled": True, **plain, **settings})
    if bench.dry:
        return {}
    result = train([setting], bench.device)[0]
    return {**result, "score": next(score for epoch, score in result["curve"] if epoch >= min(20, setting.epochs))}


def points(
    bench: Bench, cells: Sequence[Settings], *, data: str, head: str, together: Sequence[str] = ("base_lr",)
) -> Iterator[Result]:
    """Points of a grid; neighbours that differ in `together` alone are one population.

    On CIFAR-10 one CNN fills a GPU, so those are trained one at a time.
    """
    alone = data == "cifar10" and head != "linear"

    def recipe(settings: Settings) -> list[tuple[str, Any]]:
        return sorted((name, value) for name, value in settings.items() if alone or name not in together)

    for _, group in itertools.groupby(cells, key=recipe):
        population = [prepared(bench, data, head, settings) for settings in group]
        yield from [{}] * len(population) if bench.dry else train(population, bench.device)


def table11(bench: Bench, cells: Sequence[Settings], *, data: str, head: str) -> Iterator[Result]:
    """Networks without noise: batches of 512, shuffled, 60 epochs, data normalisation with exact statistics."""
    kind = "none" if head == "pixels" else "exact"
    plain = {"batch": 512, "epochs": 60, "every": 2, "noise": 0.0, "kind": kind, "shuffled": True}
    return points(bench, [{**plain, **settings} for settings in cells], data=data, head=head)


def figure4(bench: Bench, cells: Sequence[Settings], *, head: str) -> Iterator[Result]:
    """A random part of CIFAR-10, delta 1 / 2N, as many steps as 50,000 rows would have.

    Pixels get the noise of features, which pays for a normalisation too: a little more than they need.
    """
    completed = []
    for settings in cells:
        rows, steps = settings["rows"], settings["epochs"] * 50_000 // 8192
        recipe = {"batch": 8192, "kind": "none" if head == "pixels" else "floored 8", "steps": steps}
        if "noise" not in settings:
            recipe["noise"] = _figure4_noise(bench, rows, settings["epochs"], steps)
        completed.append({**recipe, **settings})
    return points(bench, completed, data="cifar10", head=head)


def _figure4_noise(bench: Bench, rows: int, epochs: int, steps: int) -> float:
    rate, delta, key = 8192 / rows, 1 / (2 * rows), f"figure4 {rows} {epochs}"
    price = partial(prices.classic, rate=rate, steps=steps, norm=8, delta=delta)
    noise = bench.prices.look_up(f"{key} noise", lambda: prices.bisected_noise(price, near=1e-3))

    def ours() -> float:
        from privaware.accounting import epsilon

        return epsilon(prices.run_event(rate, steps, noise, 8), delta)

    if bench.dry:
        bench.prices.look_up(f"{key} epsilon", ours)
    return noise


def figure10(bench: Bench, cells: Sequence[Settings], *, way: str) -> Iterator[Result]:
    """Linear models on 27 groups by amplification by iteration, or by DP-SGD with batches of 2,048 and 30 epochs."""
    completed = []
    for settings in cells:
        target, chosen = settings["epsilon"], {name: value for name, value in settings.items() if name != "epsilon"}
        recipe: dict[str, Any] = {"kind": "groups 27", "batch": 2048, "epochs": 30}
        if way == "iteration":
            recipe |= {"epochs": 10, "shuffled": True}
            compute = partial(prices.iteration_noise, target, 50_000, settings["batch"], 10)
        else:
            price = partial(prices.classic, rate=2048 / 50_000, steps=30 * (50_000 // 2048))
            compute = partial(prices.dpsgd_noise, price, target)
        key = f"figure10 {target:g} {way}" + (f" {settings['batch']}" if way == "iteration" else "")
        noise = settings.get("noise") or bench.prices.look_up(key, compute)
        completed.append({**recipe, **chosen, "noise": noise})
    return points(bench, completed, data="cifar10", head="linear", together=("base_lr", "noise"))


def iteration_grid() -> list[Settings]:
    """Steps longer than 2 / smoothness = 4 / C^2 may move two models apart and have no price: they are left out."""
    axes = grid(length=(0.1, 1.0, 10.0), epsilon=(0.5, 1.0, 2.0, 3.0), base_lr=tuple(2.0**k for k in range(-3, 4)))
    return [
        {"batch": batch, "seed": seed, **point}
        for seed, batch in itertools.product(SEEDS, (2048, 512, 128, 1024, 256, 64, 32))
        for point in axes
        if point["base_lr"] * batch / 512 <= 4 / point["length"] ** 2
    ]


def curve(bench: Bench, settings: Settings) -> Result:
    """Epsilon along Table 13's training, classic and ours."""
    data, head = settings["data"], settings["head"]
    chosen = TABLE13[data, head]
    norm = 8 if chosen["kind"] == "private 8" else 0
    noise = noise_of(bench, data, chosen)
    return {} if bench.dry else prices.curve(ROWS[data], chosen["batch"], chosen["epochs"], noise, norm)


def figure9(bench: Bench, settings: Settings) -> Result:
    return prices.figure9()


def transfer(bench: Bench, settings: Settings) -> Result:
    """A private linear head on frozen features of a network trained on public photographs (EfficientNet-Lite0)."""
    from privaware.workflow.fit import fit

    chosen = {"features": [{"name": "extractor", "size": settings["size"]}], "device": bench.device}
    model = fit("cifar10", epsilon=settings["epsilon"], learner="linear", settings=chosen, seed=settings["seed"])
    return {"score": model.internal["test_score"]}
