"""Grey SVHN, fully connected networks, with principal components and without: table V of Bao et al.

    python -m benchmarks.svhn_pca noise                  # what each row pays, by the accountants
    python -m benchmarks.svhn_pca rows --data FILE       # 52,000 grey images as one file
    python -m benchmarks.svhn_pca run --data FILE --device cuda

All private rows cost 2.58 by the accountant of the paper (RDP), private components included where they
are private. Batches of 2,048 rows and 1,000 steps take the place of 100 and 210,000, at equal epsilon.
The learning rate is the one of best mean accuracy on the 5,000 validation rows; test rows are looked
at once. Needs no accountant where it runs: `noise` writes what it needs to know.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

STORE = Path("docs/results/features")
ROWS, HELD, TESTED = 42_000, 5_000, 5_000
BATCH, STEPS, TARGET, DELTA = 2048, 1000, 2.58, 1e-5
COMPONENTS = 300
PCA = {"no PCA": None, "PCA, not private": None, "PCA, noise 8": 8.0, "PCA, noise 4": 4.0}
"""Inputs, and the noise that their principal components are released with."""

NETWORKS = {"no PCA": ((512, 2048, 256, 10), (512, 64, 256, 10)), "PCA": ((300, 512, 128, 10), (300, 128, 10))}
"""The standard and the privacy-aware network: the parameters of the table, or the nearest there are."""

LRS = (0.025, 0.05, 0.1, 0.2, 0.4)
PLAIN_LRS = (0.02, 0.05, 0.1, 0.2)


def noise(store: Path) -> None:
    """For each kind of inputs: the noise of a step, and prices by both accountants."""
    from privaware import accounting
    from privaware.events import NOTHING, Gaussian

    known = {}
    for name, level in PCA.items():
        first = NOTHING if level is None else Gaussian(noise=level)

        def total(z: float, first: Any = first) -> Any:
            return first + STEPS * Gaussian(noise=z).sampled(rate=BATCH / ROWS)

        low, high = 0.5, 50.0
        while high - low > 1e-6:
            middle = (low + high) / 2
            fits = accounting.bounds(total(middle), DELTA)["rdp"] <= TARGET
            low, high = (low, middle) if fits else (middle, high)
        alone = 0.0 if level is None else accounting.epsilon(first, DELTA)
        exact = accounting.epsilon(total(high), DELTA)
        known[name] = {"step": high, "pca": level, "pca epsilon": alone, "epsilon": exact}
    (store / "svhn_noise.json").write_text(json.dumps(known, indent=1))
    print(json.dumps(known, indent=1))


def rows(path: Path) -> None:
    """The first 42,000 rows of the training file and the next 5,000; the first 5,000 of the test file."""
    from privaware import datasets

    loaded = datasets.load("svhn")
    grey = np.array([0.299, 0.587, 0.114], dtype=np.float32)[:, None, None]
    most = ROWS + HELD
    x = np.concatenate([loaded.train.x[:most], loaded.test.x[:TESTED]])
    y = np.concatenate([loaded.train.y[:most], loaded.test.y[:TESTED]])
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, x=np.round(255 * (x * grey).sum(axis=1)).astype(np.uint8), y=y)


def scaled(flat: np.ndarray) -> np.ndarray:
    """Each row on its own: its mean taken off, and length 1."""
    flat = flat - flat.mean(axis=1, keepdims=True)
    return flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-6)


def inputs(images: np.ndarray, level: float | None, *, components: bool, seed: int) -> np.ndarray:
    """Pairs of pixels, or components of the training rows, at a scale of about 1 an entry."""
    from privaware.noise import Rng
    from privaware.selectors._moments import release, second_moments

    if not components:
        pairs = images.reshape(len(images), 32, 16, 2).mean(axis=3)
        return scaled(pairs.reshape(len(images), 512)) * np.float32(512**0.5)
    whole = scaled(images.reshape(len(images), 1024))
    exact = second_moments(whole[:ROWS].astype(float))
    noisy = exact if level is None else release(exact, level, 1.0, Rng(seed=seed))
    vectors = np.linalg.eigh(noisy)[1][:, ::-1][:, :COMPONENTS]
    return np.asarray(whole @ vectors.astype(np.float32)) * np.float32(COMPONENTS**0.5)


def train(
    x: np.ndarray, y: np.ndarray, widths: tuple[int, ...], level: float, given: argparse.Namespace
) -> dict[str, Any]:
    """Every rate with every seed, as one population; the rate of the best mean on the validation rows."""
    import torch

    from privaware import models
    from privaware.descent import Descent, Poisson, flat, momentum
    from privaware.noise import Rng

    lrs = LRS if level else PLAIN_LRS
    description = {"name": "fcn", "inputs": widths[0], "hidden": list(widths[1:-1]), "outputs": 10, "dropout": 0.2}
    pairs = [(lr, seed) for lr in lrs for seed in range(given.seeds)]
    networks = [models.build(description, np.random.default_rng(seed)) for _, seed in pairs]
    descent = Descent(
        steps=given.steps,
        sampler=Poisson(rate=BATCH / ROWS),
        clip=flat(1.0 if level else 1e6),
        update=momentum(lrs[0], 0.9),
        precision=given.precision,
        overflow=1e-10,
    )
    began = time.perf_counter()
    trained = descent.run_population(
        networks,
        torch.from_numpy(x[:ROWS]).to(given.device),
        torch.from_numpy(y[:ROWS]).to(given.device),
        noise=[level] * len(pairs),
        rows=ROWS,
        rng=Rng(seed=1),
        lr=[lr for lr, _ in pairs],
        device=given.device,
    )
    rest, truth = torch.from_numpy(x[ROWS:]).to(given.device), y[ROWS:]
    right = []
    with torch.no_grad():
        for network in trained:
            right.append(network.to(given.device).eval()(rest).argmax(1).cpu().numpy() == truth)
    held, tested = (
        np.array(right).reshape(len(lrs), given.seeds, -1)[:, :, part].mean(axis=2)
        for part in (slice(0, HELD), slice(HELD, None))
    )
    best = int(held.mean(axis=1).argmax())
    return {
        "lr": lrs[best],
        "held": (100 * held.mean(axis=1)).round(2).tolist(),
        "scores": (100 * tested[best]).round(2).tolist(),
        "parameters": sum(p.numel() for p in networks[0].parameters()),
        "seconds": round(time.perf_counter() - began, 2),
    }


def run(given: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    known = json.loads((given.noise or given.store / "svhn_noise.json").read_text())
    with np.load(given.data) as stored:
        images, y = stored["x"].astype(np.float32) / 255, stored["y"].astype(np.int64)
    for name, facts in known.items():
        components = name != "no PCA"
        x = inputs(images, facts["pca"], components=components, seed=0).astype(np.float32)
        for at, network in enumerate(NETWORKS["PCA" if components else "no PCA"]):
            for way, level in (("private", facts["step"]), ("plain", 0.0)):
                if way == "plain" and facts["pca"] is not None:
                    continue
                if given.only and f"{at}" not in given.only:
                    continue
                key = f"{name} | {'-'.join(map(str, network))} | {way}"
                yield key, train(x, y, network, level, given)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("piece", choices=["noise", "rows", "run"])
    arguments.add_argument("--data", type=Path)
    arguments.add_argument("--noise", type=Path)
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--precision", default="float32")
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--steps", type=int, default=STEPS)
    arguments.add_argument("--only", nargs="*")
    arguments.add_argument("--store", type=Path, default=STORE)
    arguments.add_argument("--commit", default="")
    given = arguments.parse_args()
    given.store.mkdir(parents=True, exist_ok=True)
    if given.piece != "run":
        noise(given.store) if given.piece == "noise" else rows(given.data)
        return
    done: dict[str, Any] = {
        "run": {
            "repeats": given.seeds,
            "steps": given.steps,
            "commit": given.commit,
            "device": given.device,
            "precision": given.precision,
            "date": time.strftime("%Y-%m-%d"),
        }
    }
    for key, value in run(given):
        done[key] = value
        (given.store / "svhn.json").write_text(json.dumps(done, indent=1))
        print(key, value, flush=True)


if __name__ == "__main__":
    main()
