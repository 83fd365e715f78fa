"""Other libraries on the tables that `research.comparisons.tables write` wrote.

This file needs only NumPy, scikit-learn and the peer.

    python research/comparisons/_table_peers.py PEER --tables FOLDER --out FILE [--limit SECONDS]

Each peer has its own environment: `dp_ebm` needs interpret-core, `opacus_mlp` needs opacus, `diffprivlib_*` needs
diffprivlib with scikit-learn below 1.4 (with later versions its noise is not divided by the number of rows), and `mst`
needs dpmm. Scores are on held-out rows. Finished cells are not run again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

EPSILONS = (0.1, 0.5, 1.0, 3.0, 8.0)
DELTA = 1e-5
Scores = np.ndarray  # probabilities (rows, classes), or predicted numbers


def one_hot(x: np.ndarray, table: Any) -> np.ndarray:
    """Return numbers scaled to [-1, 1] by their bounds (0 if missing), and one-hot categories."""
    columns = []
    for at, levels in enumerate(table.levels):
        if levels:
            columns.append(np.eye(int(levels) + 1)[x[:, at].astype(int)])
        else:
            middle, half = (table.high[at] + table.low[at]) / 2, (table.high[at] - table.low[at]) / 2
            columns.append(np.nan_to_num((np.clip(x[:, at], table.low[at], table.high[at]) - middle) / half)[:, None])
    return np.concatenate(columns, 1)


def constant(table: Any, epsilon: float, seed: int) -> Scores:
    """Predict the majority class or the mean, without privacy."""
    if table.classes:
        return np.tile(np.bincount(table.y, minlength=table.classes) / len(table.y), (len(table.test_y), 1))
    return np.full(len(table.test_y), table.y.mean())


def plain_trees(table: Any, epsilon: float, seed: int) -> Scores:
    """Train boosted trees without privacy, as an upper limit."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    make = HistGradientBoostingClassifier if table.classes else HistGradientBoostingRegressor
    model = make(categorical_features=table.levels > 0, random_state=seed).fit(table.x, table.y)
    return _answers(model, table.test_x, table)


def dp_ebm(table: Any, epsilon: float, seed: int) -> Scores:
    """Train DP-EBM; for more than two classes one model for each class against the others, with noise of its own."""
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    middle = (table.high + table.low) / 2  # it takes no missing numbers
    x, test = (np.where(np.isnan(rows), middle, rows) for rows in (table.x, table.test_x))
    kinds = ["nominal" if levels else "continuous" for levels in table.levels]
    bounds = {at: (table.low[at], table.high[at]) for at, levels in enumerate(table.levels) if not levels}
    common = {"feature_types": kinds, "privacy_bounds": bounds, "delta": DELTA, "n_jobs": 1}
    if table.classes > 2:
        common |= _ebm_part(epsilon, int(table.classes))
        answers = []
        for label in range(int(table.classes)):
            model = DPExplainableBoostingClassifier(**common, random_state=seed * int(table.classes) + label)
            answers.append(model.fit(x, table.y == label).predict_proba(test)[:, 1])
        return np.stack(answers, 1)
    if table.classes:
        model = DPExplainableBoostingClassifier(**common, epsilon=epsilon, random_state=seed)
    else:
        target = {"privacy_target_min": table.y_low, "privacy_target_max": table.y_high}
        model = DPExplainableBoostingRegressor(**common, **target, epsilon=epsilon, random_state=seed)
    return _answers(model.fit(x, table.y), test, table)


def _ebm_part(epsilon: float, fits: int, bins: float = 0.1) -> dict[str, float]:
    """Return the arguments of one of `fits` DP-EBMs that together spend `epsilon`, by DP-EBM's own accounting.

    DP-EBM spends the share `bins` of epsilon and half of delta on bins, and the rest on training. Both are Gaussian
    mechanisms, so that `fits` of them at mu / sqrt(fits) compose to one at mu.
    """
    from interpret.utils._privacy import brentq_local, delta_eps_mu

    parts = []
    for part in (bins * epsilon, (1 - bins) * epsilon):
        mu = brentq_local(lambda mu, part=part: delta_eps_mu(part, mu) - DELTA / 2, 1e-5, 1000) / fits**0.5
        parts.append(brentq_local(lambda each, mu=mu: delta_eps_mu(each, mu) - DELTA / 2, 0.0, 2 * part))
    return {"epsilon": sum(parts), "bin_budget_frac": parts[0] / sum(parts)}


def opacus_mlp(table: Any, epsilon: float, seed: int) -> Scores:
    """Train two hidden layers of 64 units with Adam at 3e-3, clipping norm 1, batch 1,024, ten epochs."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    x, test = (torch.tensor(one_hot(rows, table), dtype=torch.float32) for rows in (table.x, table.test_x))
    middle, half = (table.y_high + table.y_low) / 2, (table.y_high - table.y_low) / 2
    y = torch.tensor(table.y if table.classes else ((table.y - middle) / half)[:, None])
    y = y.long() if table.classes else y.float()
    outputs = table.classes or 1
    sizes = ((x.shape[1], 64), (64, 64))
    hidden = [layer for size in sizes for layer in (torch.nn.Linear(*size), torch.nn.ReLU())]
    model: Any = torch.nn.Sequential(*hidden, torch.nn.Linear(64, outputs))
    optimizer: Any = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader: Any = DataLoader(TensorDataset(x, y), batch_size=min(1024, len(x)))
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=_opacus_noise(epsilon, 1 / len(loader)),
        max_grad_norm=1.0,
    )
    loss = torch.nn.CrossEntropyLoss() if table.classes else torch.nn.MSELoss()
    for _ in range(10):
        for rows, targets in loader:
            optimizer.zero_grad()
            loss(model(rows), targets).backward()
            optimizer.step()
    with torch.no_grad():
        answers = model(test)
    return answers.softmax(1).numpy() if table.classes else answers[:, 0].numpy() * half + middle


@cache
def _opacus_noise(epsilon: float, rate: float) -> float:
    """Return the noise multiplier of Opacus' own calibration, cached because it takes longer than training."""
    from opacus.accountants.utils import get_noise_multiplier

    noise: float = get_noise_multiplier(
        target_epsilon=epsilon, target_delta=DELTA, sample_rate=rate, epochs=10, accountant="prv"
    )
    return noise


def diffprivlib_logistic(table: Any, epsilon: float, seed: int) -> Scores:
    from diffprivlib.models import LogisticRegression

    _expect(table.classes)
    x, test = one_hot(table.x, table), one_hot(table.test_x, table)
    norm = float(np.sqrt(len(table.levels)))
    model = LogisticRegression(epsilon=epsilon, data_norm=norm, random_state=seed, max_iter=300).fit(x, table.y)
    return _answers(model, test, table)


def diffprivlib_forest(table: Any, epsilon: float, seed: int) -> Scores:
    from diffprivlib.models import RandomForestClassifier

    _expect(table.classes)
    x, test = one_hot(table.x, table), one_hot(table.test_x, table)
    bounds = (-np.ones(x.shape[1]), np.ones(x.shape[1]))
    classes = list(range(int(table.classes)))
    forest = RandomForestClassifier(epsilon=epsilon, bounds=bounds, classes=classes, random_state=seed)
    return _answers(forest.fit(x, table.y), test, table)


def diffprivlib_linear(table: Any, epsilon: float, seed: int) -> Scores:
    from diffprivlib.models import LinearRegression

    _expect(not table.classes)
    x, test = one_hot(table.x, table), one_hot(table.test_x, table)
    bounds = (-np.ones(x.shape[1]), np.ones(x.shape[1]))
    target = (table.y_low, table.y_high)
    model = LinearRegression(epsilon=epsilon, bounds_X=bounds, bounds_y=target, random_state=seed).fit(x, table.y)
    return np.clip(model.predict(test), *target)


def mst(table: Any, epsilon: float, seed: int) -> Scores:
    """Run MST (1,000 inference iterations) on columns of at most 16 equal bins; train boosted trees on its rows."""
    import pandas
    from dpmm.models.mst import MSTGM
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    bins, scale = 16, (table.high - table.low) / 16

    def binned(x: np.ndarray) -> np.ndarray:
        numbers = np.clip(np.floor((x - table.low) / scale), 0, bins - 1)
        return np.where(np.isnan(x), bins, np.where(table.levels > 0, x, numbers)).astype(int)

    width = (table.y_high - table.y_low) / bins
    y = table.y if table.classes else np.clip((table.y - table.y_low) / width, 0, bins - 1).astype(int)
    names = [f"c{at}" for at in range(len(table.levels))]
    frame = pandas.DataFrame(binned(table.x), columns=names).assign(target=y)
    sizes = [int(levels) + 1 if levels else bins + 1 for levels in table.levels]
    model = MSTGM(epsilon=epsilon, delta=DELTA, n_iters=1000, n_jobs=1)
    model.set_random_state(np.random.RandomState(seed))
    model.set_domain({**dict(zip(names, sizes)), "target": int(table.classes) or bins})
    model.fit(frame)
    rows = model.generate(n_records=len(frame))
    make = HistGradientBoostingClassifier if table.classes else HistGradientBoostingRegressor
    labels = rows["target"].to_numpy()
    if table.classes and len(np.unique(labels)) < 2:  # the synthetic rows have only one class
        return np.tile(np.eye(int(table.classes))[labels[0]], (len(table.test_y), 1))
    trees = make(random_state=seed).fit(rows[names].to_numpy(), labels)
    answers = _answers(trees, binned(table.test_x), table)
    return answers if table.classes else table.y_low + (answers + 0.5) * width


PEERS: dict[str, Callable[[Any, float, int], Scores]] = {
    peer.__name__: peer
    for peer in (
        constant,
        plain_trees,
        dp_ebm,
        opacus_mlp,
        diffprivlib_logistic,
        diffprivlib_forest,
        diffprivlib_linear,
        mst,
    )
}


def scores(answers: Scores, table: Any) -> dict[str, float]:
    """Return accuracy and AUC (two classes), or R2."""
    if not table.classes:
        return {"r2": float(1 - ((answers - table.test_y) ** 2).mean() / table.test_y.var())}
    result = {"accuracy": float((answers.argmax(1) == table.test_y).mean())}
    if table.classes == 2:
        from sklearn.metrics import roc_auc_score

        result["auc"] = float(roc_auc_score(table.test_y, answers[:, 1]))
    return result


def _answers(model: Any, x: np.ndarray, table: Any) -> Scores:
    if not table.classes:
        return model.predict(x)
    probabilities = np.zeros((len(x), int(table.classes)))
    probabilities[:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(x)
    return probabilities


def _expect(fits: Any) -> None:
    if not fits:
        raise NotImplementedError("not for this task")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--seeds", type=int, nargs="+", default=(0, 1, 2))
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    known = {(cell["table"], cell["epsilon"], cell["seed"], cell["method"]) for cell in map(json.loads, lines)}
    private = options.peer not in ("constant", "plain_trees")
    deadline = time.time() + options.limit
    for seed in options.seeds:
        for path in sorted(options.tables.glob(f"*-{seed}.npz")):
            stored = np.load(path, allow_pickle=False)
            table = SimpleNamespace(**{field: stored[field][()] for field in stored})
            for epsilon in options.epsilons if private else (0.0,):
                key = (path.stem.rsplit("-", 1)[0], epsilon, seed, options.peer)
                if key not in known and time.time() < deadline:
                    _run(key, table, options.out)


def _run(key: tuple[str, float, int, str], table: Any, out: Path) -> None:
    began = time.perf_counter()
    try:
        result: dict[str, Any] = scores(PEERS[key[3]](table, key[1], key[2]), table)
    except NotImplementedError:
        return
    except Exception as error:  # the failure of a peer is a result, too
        result = {"failed": f"{type(error).__name__}: {error}"[:200]}
    cell = {"table": key[0], "epsilon": key[1], "seed": key[2], "method": key[3], **result}
    cell["seconds"] = round(time.perf_counter() - began, 2)
    print(json.dumps(cell), flush=True)
    with out.open("a") as file:
        file.write(json.dumps(cell) + "\n")


if __name__ == "__main__":
    main()
