"""Small items of Bao et al.: synthetic examples, text messages, medical cost, and what is only computed."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from privaware import datasets, models
from privaware.bench import Result, Settings
from privaware.noise import Rng
from privaware.workflow._curves import Point
from research.papers._bao_settings import CNNS, FCNS
from research.papers._prices import rdp_epsilon
from research.papers._results import Repeats, table
from research.papers._runner import Bench
from research.papers._training import NO_ROWS, Split, by_place, chart, network, percent, plain, tested, tuned, validated
from research.studies import Rows, Setting
from research.studies.feature_cost import feature_cost, worth
from research.studies.input_size import PAPER, PLAIN, InputSize, input_size

__all__ = ["lemma", "rnn", "table3", "table13", "table17", "tables14_15"]


def lemma(bench: Bench, settings: Settings) -> Result:
    """Lemma 1: how often the printed bound misses that dropping helps; Corollary 1: the exact threshold."""
    rng, draws = np.random.default_rng(0), settings["draws"]
    missed = dropped = wrong = 0
    for _ in range(draws):
        theta, x = rng.normal(size=5), rng.normal(size=5)
        target = float(theta @ x + rng.normal())
        cost = feature_cost(theta.tolist(), x.tolist(), target, noise=1.0)
        dropped += cost.drop
        missed += cost.drop and not cost.sufficient
        wrong += cost.sufficient and not cost.drop
    lines = []
    for epsilon in (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0):
        sizes = worth(epsilon, 1e-5)
        lines.append([f"{epsilon:g}", f"{sizes['exact']:.4g}", f"{sizes['printed']:.4g}"])
    title = "Corollary 1 at delta 1e-5 and sensitivity 1: a coefficient must be larger than"
    return {
        "tables": [table(title, ["epsilon", "exact Gaussian mechanism", "as printed"], lines)],
        "words": [
            f"Of {draws:,} random rows (five normal features, normal residual, noise 1) dropping the last one "
            f"helps in {dropped:,}; the printed bound misses {missed:,} of them, and {wrong} times it says drop "
            "where keeping is better."
        ],
    }


def table3(bench: Bench, settings: Settings) -> Result:
    """Table III and Figure 5: the same task with more and more inputs, at epsilon 0.0355.

    The learning rates of each input size are chosen on other rows (seed 1) with ten repeats.
    """
    if bench.dry:
        return {}
    chosen, studies = [], []
    for size in settings["inputs"]:
        noisy, exact = {}, {}
        for lr, plain_lr in zip(settings["rates"], settings["plain_rates"], strict=True):
            study = _input_size(bench, size, lr, plain_lr, repeats=10, seed=1)
            noisy[lr], exact[plain_lr] = study.points[0].mean, study.plain[0].mean
        rates = max(noisy, key=noisy.__getitem__), max(exact, key=exact.__getitem__)
        studies.append(_input_size(bench, size, *rates, repeats=settings["seeds"], seed=0))
        chosen.append(f"{size} inputs {rates[0]:g} ({rates[1]:g})")
    lines = [
        [f"{study.points[0].x:g}", percent(study.points[0]), percent(study.plain[0])] for study in reversed(studies)
    ]
    spent = rdp_epsilon(studies[0].rate, PAPER.steps, PAPER.noise)
    title = f"noise {PAPER.noise:g}, 12,000 rows, batch {PAPER.batch}, 50 epochs, norm 1; epsilon {spent:.4f}"
    distances = [p for study in studies for p in study.distances]
    ends = ", ".join(f"{p.curve} {p.mean:.3f}" for p in distances if p.x == 50)
    return {
        "tables": [table(title, ["inputs", "DP-SGD", "without noise"], lines)],
        "charts": [chart("figure5", distances, x="epoch", y="cosine distance", log=False)],
        "words": [
            f"Cosine distance after 50 epochs: {ends}.",
            f"Learning rates with noise (without noise in brackets): {', '.join(chosen)}.",
            "The paper does not state the number of rows, the noise, the learning rate or how a number is split. Here: "
            "12,000 rows, noise 100 (which gives its epsilon), learning rates chosen on other rows, equal parts. "
            f"Without noise: no clipping, batches of {PLAIN.batch:,}, momentum {PLAIN.momentum:g}, as many steps.",
        ],
    }


def _input_size(bench: Bench, size: int, lr: float, plain_lr: float, **how: int) -> InputSize:
    return input_size((size,), replace(PAPER, lr=lr), plain=replace(PLAIN, lr=plain_lr), device=bench.device, **how)


@cache
def medical() -> Split:
    """Six inputs, codes and numbers scaled to [-1, 1], charges scaled to [0, 1] by the range of the training rows."""
    loaded = datasets.load("medical_cost")
    low, high = loaded.train.y.min(), loaded.train.y.max()
    bounds = [
        (column.low, column.high) if column.kind == "number" else (0, len(column.categories) - 1)
        for column in loaded.train.schema.used
    ]
    least, most = np.array(bounds, dtype=float).T

    def scaled(data: Any) -> tuple[np.ndarray, np.ndarray]:
        x = 2 * (data.x - least) / (most - least) - 1
        return x.astype(np.float32), np.clip((data.y - low) / (high - low), 0, 1).astype(np.float32)

    (x, y), (tx, ty) = scaled(loaded.train), scaled(loaded.test)
    rows = Rows(name="medical cost, validation", x=x, y=y, x_test=tx[:100], y_test=ty[:100], public=True)
    return Split(rows, replace(rows, name="medical cost, test", x_test=tx[100:], y_test=ty[100:]))


def tables14_15(bench: Bench, settings: Settings) -> Result:
    """Regression on Medical Cost: mean absolute error by layers and units, with and without noise."""
    rows = NO_ROWS if bench.dry else medical()
    batch, steps, seeds = 250, 100, settings["seeds"]
    noise = bench.prices.noise(batch / 1000, steps, 0.95)
    noisy: dict[tuple[str, float], Setting] = {}
    for layers in settings["layers"]:
        for units in settings["units"]:
            net = {"name": "fcn", "inputs": 6, "hidden": [units] * layers, "outputs": 1, "dropout": 0.0}
            setting = Setting(
                architecture=net, batch=batch, steps=steps, lr=1.0, noise=noise, norm=0.3, initial="glorot"
            )
            noisy[str(layers), units] = setting
    free = {place: replace(plain(setting), batch=100, steps=400) for place, setting in noisy.items()}
    private = by_place(tuned(bench, rows, noisy, (0.05, 0.2, 0.8), seeds)[0])
    without = by_place(tuned(bench, rows, free, (0.05, 0.2), seeds)[0])

    def errors(p: Point) -> Repeats:
        return Repeats(scores=[1 - score for score in p.scores], factor=1.0, digits=3)

    def lines(measured: dict[tuple[str, float], Point]) -> list[list[Any]]:
        return [
            [layers, *(errors(measured[str(layers), u]) for u in settings["units"])] for layers in settings["layers"]
        ]

    head = ["layers", *(f"{units} units" for units in settings["units"])]
    constant = np.abs(rows.test.y_test - np.median(rows.test.y)).mean()
    best = max(private.values(), key=lambda p: p.mean)
    worst = min(private.values(), key=lambda p: p.mean)
    schedule = f"epsilon 0.95 (noise {noise:.4g}, batch {batch}, {steps} steps, norm 0.3)"
    return {
        "tables": [
            table(f"Table XIV, with noise: {schedule}; published in brackets", head, lines(private), key="XIV"),
            table(
                "Table XV, without noise (batch 100, 400 steps); published in brackets", head, lines(without), key="XV"
            ),
        ],
        "words": [
            f"Mean absolute error on charges scaled to 0-1, 200 test rows (100 others chose the rate); a constant (the "
            f"training median) gets {constant:.3f}. Best with noise: {best.curve} layers of {best.x:g} units, "
            f"{1 - best.mean:.3f}; worst: {worst.curve} layers of {worst.x:g} units, {1 - worst.mean:.3f}. The six "
            "inputs are codes and numbers scaled to [-1, 1], initial weights are those of Keras; the paper's own "
            "scaling, batch and noise are not stated."
        ],
    }


WORD = re.compile(r"[a-z']+|[0-9]+|[^\sa-z0-9]")
LENGTH, WORDS = 150, 1000


@cache
def messages() -> Split:
    """Messages as codes of their words: the 999 most frequent training words; all others and the padding are 0."""
    loaded = datasets.load("sms_spam")
    counts = Counter(word for text in loaded.train.x for word in WORD.findall(text.lower()))
    codes = {word: at for at, (word, _) in enumerate(counts.most_common(WORDS - 1), start=1)}

    def coded(texts: Any) -> np.ndarray:
        out = np.zeros((len(texts), LENGTH), dtype=np.int64)
        for row, text in zip(out, texts):
            words = [codes.get(word, 0) for word in WORD.findall(text.lower())][-LENGTH:]
            row[LENGTH - len(words) :] = words
        return out

    x, y, tx, ty = coded(loaded.train.x), loaded.train.y, coded(loaded.test.x), loaded.test.y
    rows = Rows(name="sms, validation", x=x, y=y, x_test=tx[:236], y_test=ty[:236], public=True)
    return Split(rows, replace(rows, name="sms, test", x_test=tx[236:], y_test=ty[236:]))


def _constant(rows: Split) -> float:
    """The accuracy of the more frequent class, in per cent."""
    return 100 * float(max(np.mean(rows.test.y_test == label) for label in (0, 1)))


TABLE13 = {"simple (PAW)": "bao.lstm.sms.50994", "complex (STW)": "bao.lstm.sms.496978"}


def table13(bench: Bench, settings: Settings) -> Result:
    """RNNs on SMS spam at epsilon 7.21."""
    rows = NO_ROWS if bench.dry else messages()
    batch, steps = 235, settings["steps"]
    noise = bench.prices.noise(batch / 4700, steps, 7.207)
    noisy = {
        (name, 7.21): Setting(architecture=network(TABLE13[name]), batch=batch, steps=steps, lr=1.0, noise=noise)
        for name in settings["models"]
    }
    free = {(name, 0.0): plain(setting) for (name, _), setting in noisy.items()}
    private = by_place(tuned(bench, rows, noisy, (0.5, 2.0), settings["seeds"])[0])
    without = by_place(tuned(bench, rows, free, (0.5, 2.0), settings["seeds"])[0])
    lines = [[name, percent(private[name, 7.21]), percent(without[name, 0.0])] for name in settings["models"]]
    title = f"epsilon 7.21: noise {noise:.4g}, batch {batch}, {steps} steps"
    return {
        "tables": [table(title, ["model", "DP-SGD", "SGD"], lines)],
        "words": [
            f"600 test messages (236 others chose the rate); a constant gets {_constant(rows):.2f}. Codes are the "
            "999 most frequent words of the training messages, an exact statistic: an evaluation."
        ],
    }


def rnn(bench: Bench, settings: Settings) -> Result:
    """Random weights training of the RNN on SMS spam at noise 10 (epsilon 0.391) or at noise 1e-4.

    `schedules` has pairs of batch and steps. The validation accuracy at every rate shows whether a model learns more
    than the constant prediction.
    """
    rows = NO_ROWS if bench.dry else messages()
    printed, rates = settings["epsilon"], settings["rates"]
    architecture = {**network("bao.lstm.sms.496978"), "dropout": 0.0}
    noisy: dict[tuple[str, float], Setting] = {}
    for batch, steps in settings["schedules"]:
        noise = 1e-4 if printed > 1 else bench.prices.noise(batch / 4700, steps, 0.3907)
        normal = Setting(architecture=architecture, batch=batch, steps=steps, lr=1.0, noise=noise)
        noisy["normal", batch] = normal
        noisy["last two layers", batch] = replace(normal, trainable=(False, False, True, True))
    scores = validated(bench, rows, noisy, rates)
    best = {place: max(rates, key=lambda rate: of_rate[rate]) for place, of_rate in scores.items()}
    chosen = {place: replace(setting, lr=best[place]) for place, setting in noisy.items()}
    measured = by_place(tested(bench, rows, chosen, settings["seeds"]))
    lines = [
        [way, f"{batch:g}", f"{noisy[way, batch].steps}", percent(measured[way, batch]), f"{best[way, batch]:g}"]
        for way, batch in noisy
    ]
    constant = 100 * float(max(np.mean(rows.validation.y_test == label) for label in (0, 1)))
    tried = [[way, f"{batch:g}", *(f"{100 * scores[way, batch][rate]:.2f}" for rate in rates)] for way, batch in noisy]
    title = f"epsilon {printed:g}: RNN of 496,978, 132,610 of them in the last two layers"
    shown = "validation accuracy of one model at each learning rate"
    return {
        "tables": [
            table(title, ["trained", "batch", "steps", "ours", "rate"], lines),
            table(shown, ["trained", "batch", *(f"rate {rate:g}" for rate in rates)], tried, key="validation"),
        ],
        "words": [f"A constant gets {_constant(rows):.2f} on test rows and {constant:.2f} on validation rows."],
    }


TABLE17 = {"CNN": ("svhn", CNNS["svhn"]), "FCN": ("svhn", FCNS["svhn"]), "RNN": ("sms", tuple(TABLE13.values())[::-1])}
"""Data set and networks, the larger one first, of each kind."""


def table17(bench: Bench, settings: Settings) -> Result:
    """Table XVII: seconds of an epoch in batches of 100, by DP-SGD and by plain gradient descent in PyTorch."""
    if bench.dry:
        return {}
    lines = []
    for kind, (data, names) in TABLE17.items():
        steps = math.ceil({"svhn": 42_000, "sms": 4_700}[data] / 100)
        for name in names:
            private, exact = (steps * value for value in _step_seconds(bench.device, name, settings["steps"]))
            cells = [f"{private:.3g}", f"{exact:.3g}", f"{private / exact:.1f}"]
            lines.append([data, kind, f"{models.count(network(name)):,}", *cells])
    head = ["data", "model", "parameters", "DP-SGD", "SGD", "ratio"]
    return {
        "tables": [table("Seconds of one epoch in batches of 100", head, lines)],
        "words": [
            f"An epoch is {settings['steps']} timed steps on random inputs, scaled to 420 steps (SVHN) or 47 (SMS). "
            "SGD is an eager PyTorch loop. On a GPU ours is captured in a CUDA graph, so the ratio there is mostly the "
            "time of launching kernels; descent.md compares with a captured loop, at batches of 256. The published "
            "seconds are of another machine and of TensorFlow Privacy."
        ],
    }


def _step_seconds(device: str, name: str, steps: int) -> tuple[float, float]:
    """Return the seconds of one step with privacy, by this package, and of one plain step, by PyTorch."""
    import torch
    from torch.nn import functional

    from privaware.descent import Descent, FullBatch, flat, members, sgd

    description = network(name)
    x, y = models.example(description, 100).to(device), torch.arange(100, device=device) % 2
    module = models.build(description, np.random.default_rng(0)).to(device)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)

    def private(count: int) -> None:
        descent = Descent(steps=count, sampler=FullBatch(), clip=flat(1.0), update=sgd(0.01))
        descent.run_population(members([module], noise=[1.0]), x, y, rows=100, rng=Rng(seed=0), device=device)

    def exact(count: int) -> None:
        for _ in range(count):
            optimiser.zero_grad(set_to_none=True)
            functional.cross_entropy(module(x), y).backward()
            optimiser.step()

    seconds = []
    for train in (private, exact):
        ends = [0.0]
        for count in (3, 3, 3 + steps):  # preparation and the first steps cancel in the difference
            began = time.perf_counter()
            train(count)
            if device != "cpu":
                torch.cuda.synchronize()
            ends.append(time.perf_counter() - began)
        seconds.append((ends[-1] - ends[-2]) / steps)
    return seconds[0], seconds[1]
