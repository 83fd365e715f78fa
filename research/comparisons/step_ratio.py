"""The time of a step in this source tree divided by its time in another tree.

    python -m research.comparisons.step_ratio OTHER cpu|cuda [case ...]

OTHER is a folder with an earlier commit (`git worktree add`). Each tree has its own process. They are timed in turn, on
a CPU by process time. The ratio is the median over rounds of this tree's time divided by the other tree's time.
"""

from __future__ import annotations

import json
import os
import queue
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[2]
CASES = {
    "cpu": ["fcn_256", "fcn_256_dropout", "population_16", "linear_mnist", "cnn_256", "lstm_256"],
    "cuda": ["fcn_256", "population_16", "cnn_256", "fcn_4096", "full_4096", "fcn_256_overflow", "wrn_128"],
}
ROUNDS = 15
NAMED = {"cnn_256": ("tramer_boneh", "cnn"), "wrn_128": ("wrn", "wrn")}


def build(case: str, device: str) -> Callable[[], None]:
    """Return the step of a case, through the interface that both trees have."""
    if case == "linear_mnist":
        return linear_step()
    from privaware.descent import Descent, FullBatch, Poisson, flat, members, sgd
    from privaware.descent._loop import stepper
    from privaware.descent._precision import matmul_precision
    from privaware.descent._training import Training, prepare
    from privaware.noise import Rng

    modules, x, y, batch = problem(case)
    rows, precision = len(x), "tf32" if case == "wrn_128" else "float32"
    descent = Descent(
        steps=20_000,
        sampler=FullBatch() if case.startswith("full") else Poisson(rate=batch / rows),
        clip=flat(1.0),
        update=sgd(0.1),
        precision=precision,
        overflow=1e-9 if case.endswith("overflow") else 0.0,
    )
    with matmul_precision(precision):
        prepared = prepare(modules, descent.loss, x.to(device), y.to(device), device)
        population = members(modules, [1.0] * len(modules))
        step = stepper(Training(descent, population, prepared, rows=rows, rng=Rng(3)))

    def one() -> None:
        with matmul_precision(precision):
            step()

    return one


def problem(case: str) -> tuple[list[Any], Any, Any, int]:
    """Return modules, inputs, targets and the mean batch size of a case."""
    import torch
    from torch import nn

    from privaware import models

    torch.manual_seed(0)
    if case in NAMED:
        beginning, word = NAMED[case]
        name = next(name for name in models.named() if name.startswith(beginning) and word in name)
        description, rows, batch = models.named()[name].description, 4096, 128 if case == "wrn_128" else 256
        x, modules = models.example(description, rows), [models.build(description)]
        return modules, x, torch.arange(rows) % modules[0](x[:2]).shape[1], batch
    if case == "population_16":
        modules = [nn.Sequential(nn.Linear(100, 64), nn.Tanh(), nn.Linear(64, 2)) for _ in range(16)]
        return modules, torch.randn(20_000, 100), torch.arange(20_000) % 2, 256
    if case == "lstm_256":
        return [sequence_model()], torch.randn(20_000, 28, 28), torch.arange(20_000) % 10, 256
    rows, batch = (4096 if case.startswith("full") else 65_536, 4096) if "4096" in case else (20_000, 256)
    drop = [nn.Dropout(0.2)] * case.endswith("dropout")
    layers = (nn.Linear(784, 300), nn.ReLU(), *drop, nn.Linear(300, 64), nn.ReLU(), *drop, nn.Linear(64, 10))
    return [nn.Sequential(*layers)], torch.randn(rows, 784), torch.arange(rows) % 10, batch


def sequence_model() -> Any:
    """Return an LSTM over the rows of an image."""
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.out = nn.LSTM(28, 64, batch_first=True), nn.Linear(64, 10)

        def forward(self, x: Any) -> Any:
            return self.out(self.rnn(x)[0][:, -1])

    return Net()


def linear_step() -> Callable[[], None]:
    """Return a step of `linear` on Poisson samples of 3,000 rows of MNIST."""
    from privaware import datasets
    from privaware.learners.linear import Linear
    from privaware.noise import Rng

    go, over = queue.Queue[None](), queue.Queue[None]()

    def progress(step: int, steps: int, left: float) -> None:
        over.put(None)
        go.get()

    learner = Linear(steps=10**6, rate=0.05, lr=1.0, progress=progress)
    data = datasets.load("mnist").train
    threading.Thread(target=lambda: learner.run(data, 1.0, Rng(3)), daemon=True).start()
    over.get()

    def step() -> None:
        go.put(None)
        over.get()

    return step


def serve(device: str) -> None:
    """Answer each line "case count" with the milliseconds of a step."""
    import torch

    if device == "cpu":
        torch.set_num_threads(1)
    clock = time.perf_counter if device == "cuda" else time.process_time
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    steps: dict[str, Callable[[], None]] = {}
    for line in sys.stdin:
        case, count = line.split()
        if case not in steps:
            steps = {case: build(case, device)}
        step = steps[case]
        wait()
        began = clock()
        for _ in range(int(count)):
            step()
        wait()
        print(json.dumps((clock() - began) / int(count) * 1000), flush=True)


def compare(other: str, device: str, cases: list[str]) -> dict[str, dict[str, float]]:
    """Return the milliseconds of both trees and their ratio, by case."""
    command = [sys.executable, __file__, "--serve", device]
    processes = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=tree,
            env={**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        )
        for tree in (str(Path(other).resolve()), str(HERE))
    ]

    def ask(process: Any, case: str, count: int) -> float:
        process.stdin.write(f"{case} {count}\n")
        process.stdin.flush()
        return float(json.loads(process.stdout.readline()))

    results = {}
    for case in cases:
        _, slowest = (max(ask(process, case, count) for process in processes) for count in (2, 5))
        count = max(1, min(500, int((600 if device == "cuda" else 150) / slowest)))
        rounds = [[ask(process, case, count) for process in processes] for _ in range(ROUNDS)]
        before, now = (round(statistics.median(times), 4) for times in zip(*rounds, strict=True))
        ratio = statistics.median(new / old for old, new in rounds)
        results[case] = {"before": before, "now": now, "ratio": round(ratio, 3), "steps": count}
    for process in processes:
        process.kill()
    return results


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    else:
        tree, on, *chosen = sys.argv[1:]
        print(json.dumps(compare(tree, on, chosen or CASES[on]), indent=1))
