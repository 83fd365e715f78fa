"""Runs of Bao et al.'s feature tables by DP-SGD: Tables II and XVIII (columns) and Table V (components)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from privaware import accounting, datasets, models
from privaware.bench import Result, Settings
from privaware.events import NOTHING, Gaussian
from privaware.noise import Rng
from research.papers._bao_columns import adult, breast, first_columns, greedy_order, summary
from research.papers._prices import least
from research.papers._published import tables
from research.papers._runner import Bench
from research.papers._training import grey, plain, swept
from research.studies import Rows, Setting
from research.studies._trials import Trial

LRS = (0.05, 0.5, 5.0)
SOFTMAX = {"breast": (1.0, 40), "adult": (250 / 22_750, 3640)}
"""Sampling rate and steps."""


def published_softmax(data: str) -> dict[float | None, dict[int, float]]:
    """Published accuracies by epsilon (None: without noise) and number of columns."""
    sizes, *rows = tables("bao")["softmax"][data].items()
    budgets = {None if e == "none" else float(e): values for e, values in rows if e != "none again"}
    return {epsilon: dict(zip(sizes[1], values, strict=True)) for epsilon, values in budgets.items()}


def published_again() -> dict[int, float]:
    """Published accuracies of the second SGD column of Table XVIII by number of columns."""
    printed = tables("bao")["softmax"]["adult"]
    return dict(zip(printed["columns"], printed["none again"], strict=True))


def softmax(bench: Bench, settings: Settings) -> Result:
    """Softmax of two units by noisy gradient descent, from zero weights; the rate is chosen by training accuracy."""
    import torch
    from torch import nn

    from privaware.descent import Descent, FullBatch, Poisson, flat, members, sgd

    rate, steps = SOFTMAX[settings["data"]]
    epsilon, repeats, noise = settings["epsilon"], settings["repeats"], 0.0
    if epsilon is not None:
        key = f"{settings['data']} softmax at {epsilon}"
        noise = bench.prices.calibrated(key, lambda z: steps * Gaussian(noise=z).sampled(rate=rate), epsilon)
    if bench.dry:
        return {}
    table, bins = (breast(), 2) if settings["data"] == "breast" else (adult(), 8)
    mask = first_columns(greedy_order(table, bins), settings["columns"])
    x, x_test = (torch.from_numpy(part[:, mask]).float() for part in (table.x, table.x_test))
    y = torch.from_numpy(table.y.astype(np.int64))
    pairs = [(lr, seed) for lr in LRS for seed in range(repeats)]
    networks = [nn.Linear(x.shape[1], 2) for _ in pairs]
    for layer in networks:
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    descent = Descent(
        steps=steps,
        update=sgd(LRS[0]),
        clip=flat(1.0 if noise else 1e6),
        sampler=FullBatch() if rate == 1 else Poisson(rate=rate),
        overflow=1e-10 if bench.device == "cuda" else 0.0,
    )
    trained = descent.run_population(
        members(networks, noise=[noise] * len(pairs), lr=[lr for lr, _ in pairs]),
        x,
        y,
        rows=len(x),
        rng=Rng(seed=int(mask.sum()) + settings.get("first_seed", 0)),
        device=bench.device,
    )
    train_scores, test_scores = (
        np.array([_accuracy(network, inputs, labels) for network in trained]).reshape(len(LRS), repeats)
        for inputs, labels in ((x, table.y), (x_test, table.y_test))
    )
    best = int(train_scores.mean(axis=1).argmax())
    scores = [round(float(score), 4) for score in test_scores[best]]
    return {"score": summary(test_scores[best]), "scores": scores, "lr": LRS[best], "noise": noise}


def _accuracy(network: Any, inputs: Any, labels: np.ndarray) -> float:
    return float((network.to("cpu")(inputs).argmax(dim=1).numpy() == labels).mean())


ROWS, VALIDATION, TEST = 42_000, 5_000, 5_000
BATCH, TARGET, DELTA, COMPONENTS = 2048, 2.58, 1e-5, 300
RELEASED = {"no PCA": None, "PCA, not private": None, "PCA, noise 8": 8.0, "PCA, noise 4": 4.0}
"""Inputs, and the noise multiplier with which their principal components are released."""
RATES, PLAIN_RATES = (0.025, 0.05, 0.1, 0.2, 0.4), (0.02, 0.05, 0.1, 0.2)


def table5(bench: Bench, settings: Settings) -> Result:
    """One network on one kind of inputs: every rate with every seed, the best by mean validation accuracy tested."""
    widths = [int(width) for width in settings["network"].split("-")]
    description = {"name": "fcn", "inputs": widths[0], "hidden": widths[1:-1], "outputs": 10, "dropout": 0.2}
    released, steps = RELEASED[settings["inputs"]], settings["steps"]
    noise = bench.prices.look_up(f"table 5: {settings['inputs']}, {steps} steps", lambda: _step_noise(released, steps))
    if bench.dry:
        return {}
    private = Setting(architecture=description, batch=BATCH, steps=steps, lr=1.0, noise=noise, momentum=0.9)
    setting, rates = (private, RATES) if settings["training"] == "private" else (plain(private), PLAIN_RATES)
    validation, test = (_svhn(settings["inputs"], part) for part in ("validation", "test"))

    def scores(rate: float, rows: Rows) -> list[float]:
        trials = [
            Trial(curve=settings["inputs"], x=rate, seed=seed, setting=replace(setting, lr=rate))
            for seed in range(settings["repeats"])
        ]
        return [round(100 * outcome.score, 2) for outcome in swept(bench, trials, rows)]

    held = {rate: float(np.mean(scores(rate, validation))) for rate in rates}
    best = max(rates, key=lambda rate: held[rate])
    parameters = models.count(description)
    return {"lr": best, "held": list(held.values()), "scores": scores(best, test), "parameters": parameters}


def _step_noise(released: float | None, steps: int) -> float:
    """The noise multiplier of a step at which everything costs 2.58 by the accountant of the paper."""
    first = NOTHING if released is None else Gaussian(noise=released)

    def fits(noise: float) -> bool:
        event = first + steps * Gaussian(noise=noise).sampled(rate=BATCH / ROWS)
        return accounting.bounds(event, DELTA)["rdp"] <= TARGET

    return least(fits, 0.5, 50.0)


def table5_prices(bench: Bench, settings: Settings) -> Result:
    """The noise of a step for each kind of inputs, and what all of it costs by our accountant."""
    prices: Result = {}
    for name, released in RELEASED.items():
        first = NOTHING if released is None else Gaussian(noise=released)
        noise = _step_noise(released, settings["steps"])
        event = first + settings["steps"] * Gaussian(noise=noise).sampled(rate=BATCH / ROWS)
        alone = 0.0 if released is None else accounting.epsilon(first, DELTA)
        prices[name] = {"step": noise, "pca": released, "pca epsilon": alone} | {
            "epsilon": accounting.epsilon(event, DELTA)
        }
    return prices


@cache
def _svhn(inputs: str, part: str) -> Rows:
    """Grey SVHN: pairs of pixels, or principal components of the training rows, at a scale of about 1 an entry."""
    from privaware.exact_sums import Total
    from privaware.preprocessing._moments import add_second_moments, clipped, release

    loaded = datasets.load("svhn")
    x = np.concatenate([loaded.train.x[: ROWS + VALIDATION], loaded.test.x[:TEST]])
    y = np.concatenate([loaded.train.y[: ROWS + VALIDATION], loaded.test.y[:TEST]])
    images = np.round(255 * grey(x)[:, 0]).astype(np.float32) / 255
    if inputs == "no PCA":
        pairs = images.reshape(len(images), 32, 16, 2).mean(axis=3)
        x = _normalised(pairs.reshape(len(images), 512)) * np.float32(512**0.5)
    else:
        flat = _normalised(images.reshape(len(images), 1024))
        total, noise = Total(), RELEASED[inputs]
        add_second_moments(total, clipped(flat[:ROWS], 1.0), 1.0)
        exact = np.asarray(total.value)
        noisy = exact if noise is None else release(exact, noise, 1.0, Rng(seed=0))
        vectors = np.linalg.eigh(noisy)[1][:, ::-1][:, :COMPONENTS]
        x = np.asarray(flat @ vectors.astype(np.float32)) * np.float32(COMPONENTS**0.5)
    held = slice(ROWS, ROWS + VALIDATION) if part == "validation" else slice(ROWS + VALIDATION, None)
    return Rows(name=f"svhn, {inputs}, {part}", x=x[:ROWS], y=y[:ROWS], x_test=x[held], y_test=y[held], public=True)


def _normalised(flat: np.ndarray) -> np.ndarray:
    """Each row alone: without its mean, and of length 1."""
    flat = flat - flat.mean(axis=1, keepdims=True)
    return flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-6)
