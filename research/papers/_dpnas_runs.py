"""Trainings of DPNAS: settings of each data set, one training from scratch, and the derivation of a search.

Searches run on benchmark rows as public ones: steps clipped at 0.1 with noise 0.8, exact scores, nothing charged, as in
the paper. Networks are trained from scratch on all training rows with the authors' evaluation settings (clipping norm
0.1, batch 2,048, momentum 0.9, noise 2.15 or 2.0664); one training gives the accuracy at the steps where the classic
epsilon reaches 1, 2 and 3.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware import datasets, models
from privaware.bench import Result, Settings
from privaware.bench._store import Store
from privaware.data import Data
from privaware.descent import Callbacks, Descent, Poisson, ema, flat, momentum
from privaware.errors import Refused, WrongInput
from privaware.noise import Rng
from research.papers._published import tables
from research.papers._runner import Bench
from research.papers._tramer_boneh_train import CHANNELS, free_memory

if TYPE_CHECKING:
    import torch

__all__ = ["CASES", "COMPARED", "derive", "halves", "plain", "rows", "train", "tune"]

HELD_OUT = 0.4
RETRIED = 4
"""The best cells are tried with a doubled learning rate too."""
GAIN = 0.005
"""What the doubled rate must gain."""
STARTS = 3
"""Initial weights that are tried before a network is refused in one precision."""
RATES = (0.5, 1.0, 2.0, 4.0)
"""Learning rates that are tried for the networks of Table 2 and Figure 1, for which the paper prints none."""
PLAIN_EPOCHS = 30
"""Epochs of the trainings without privacy in Figure 1."""
PLAIN_BATCH = 256
"""Batch of the trainings without privacy in Figure 1."""
PLAIN_LR = 0.1
"""Learning rate of the trainings without privacy in Figure 1."""
COMPARED = {
    "NASNet": "dpnas.nasnet_a.cifar10",
    "NASNet-S": "dpnas.nasnet_a_small.cifar10",
    "AmoebaNet": "dpnas.amoebanet_a.cifar10",
    "AmoebaNet-S": "dpnas.amoebanet_a_small.cifar10",
    "DARTS": "dpnas.darts.cifar10",
    "DARTS-S": "dpnas.darts_small.cifar10",
    "EfficientNet": "dpnas.efficientnet.cifar10",
    "EfficientNet-S": "dpnas.efficientnet_small.cifar10",
    "ResNet-20": "dpmlbench.resnet20.colour",
    "WRN-16-4": "wrn.16_4.colour",
}
"""Beginning of the published name of each network of Table 2 and Figure 1."""


@dataclass(frozen=True)
class Case:
    """Evaluation settings (`marks`: the steps at which the classic epsilon is 1, 2 and 3), and those of the search.

    The hand-made network has the learning rate of Tramer and Boneh's Table 13 for a batch of this size; `tried` cells
    of a search get a short training. `mirrored`: what the images show may be mirrored (digits may not).
    """

    network: dict[str, Any]
    small: dict[str, Any]
    cnn: dict[str, Any]
    search: dict[str, Any]
    marks: tuple[int, ...]
    batch: int = 2048
    noise: float = 2.15
    lr: float = 2.0
    cnn_lr: float = 2.0
    tried: int = 1
    mirrored: bool = False


def cnn(name: str) -> dict[str, Any]:
    """The hand-made network of Papernot et al. that Table 1 compares with."""
    return models.named()[f"tramer_boneh.cnn.{name}"].description


def compared(name: str, data: str) -> dict[str, Any]:
    """The description of a network of Table 2 or Figure 1, for the images of a data set."""
    [network] = [known for key, known in models.named().items() if key.startswith(f"{COMPARED[name]}.")]
    return {**network.description, "inputs": list(rows(data)[0].schema.shape)}


NARROW = {"channels": [32, 32, 64], "activation": "tanh"}
SMALL = {"channels": [16, 16, 32], "squeeze": 16}
SEARCH = {"rate": 0.04, "lr": 2.0, "held_rate": 0.1, "updates": 4, "microbatch": 2048, "precision": "tf32"}
GREY = Case(NARROW, SMALL, cnn("mnist.26010"), SEARCH, marks=(118, 514, 1157))
CASES = {
    "mnist": GREY,
    "fashion_mnist": replace(GREY, cnn_lr=4.0),
    "cifar10": Case(
        {"channels": [48, 96, 192], "activation": "selu"},
        {**SMALL, "activation": "selu"},
        cnn("cifar10.550570"),
        SEARCH,
        marks=(69, 316, 721),
        noise=2.0664,
        tried=20,
        mirrored=True,
    ),
    # Small enough for a CPU, and far from private: it shows that the parts work together.
    "digits": Case(
        {"channels": [8, 16], "squeeze": 16, "hidden": 32, "groups": 4, "activation": "selu"},
        {"channels": [4, 8], "squeeze": 8, "hidden": 16, "groups": 4, "activation": "selu"},
        {"name": "simple_cnn", "inputs": [1, 8, 8], "outputs": 10, "filters": [16, 32], "hidden": [32]},
        {"epochs": 40, "warm_up": 20, "rate": 0.1, "lr": 4.0, "aware": 0.3, "updates": 2, "held_rate": 0.5}
        | {"controller_lr": 0.01},
        marks=(60, 200),
        batch=144,
        noise=0.6,
        lr=4.0,
        cnn_lr=4.0,
    ),
}


@cache
def rows(data: str) -> tuple[Data, Data]:
    loaded = datasets.load(data)
    return loaded.train, loaded.test


def halves(data: str, seed: int) -> tuple[Data, Data]:
    """Rows that train and rows that score a search, 0.6 to 0.4 as in the paper."""
    train = rows(data)[0]
    order = np.random.default_rng(seed).permutation(len(train))
    cut = round((1 - HELD_OUT) * len(train))
    fits, held_out = (train.take(np.sort(part)) for part in (order[:cut], order[cut:]))
    return _declared(fits), _declared(held_out)


def _declared(part: Data) -> Data:
    return replace(part, schema=replace(part.schema, rows=len(part)))


def tensors(part: Data, data: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Images standardised by public constants, and their classes."""
    import torch

    from privaware.strategies._dpnas.weights import tensors_of

    if data not in CHANNELS:
        return tensors_of(part, device)
    mean, deviation = (torch.tensor(values, device=device)[:, None, None] for values in CHANNELS[data])
    return (torch.from_numpy(part.x).to(device) - mean) / deviation, torch.from_numpy(part.y).to(device)


def described(data: str, cell: list[Any], **small: Any) -> dict[str, Any]:
    """The network of a cell in the form of a data set."""
    ends = {"inputs": list(rows(data)[0].schema.shape), "outputs": 10, "cell": list(cell)}
    return {"name": "dpnas", **ends, **CASES[data].network, **small}


@dataclass(frozen=True)
class Marks:
    """An observer: at the marks it scores the model with averaged parameters, and that with the last ones."""

    test: Any
    at: tuple[int, ...]
    averaged: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)

    def __call__(self, training: Any) -> None:
        if training.step in self.at:
            last = training.stack.trained(training.modules, training.state.theta)
            self.averaged.append(accuracy(training.released()[0], *self.test))
            self.last.append(accuracy(last[0], *self.test))


def accuracy(network: Any, inputs: torch.Tensor, labels: torch.Tensor) -> float:
    import torch

    network = network.to(inputs.device).eval()
    with torch.no_grad():
        right = [network(x).argmax(1) == y for x, y in zip(inputs.split(2000), labels.split(2000))]
    return float(torch.cat(right).float().mean())


@dataclass(frozen=True, kw_only=True)
class Training:
    """One network from scratch: what differs from the evaluation settings of its data set."""

    data: str
    network: dict[str, Any]
    seed: int
    lr: float
    mirrored: bool = False
    marks: tuple[int, ...] = ()
    parts: tuple[Data, Data] | None = None
    microbatch: int | None = 2208  # almost every sample in one microbatch

    def run(self, device: str) -> Result:
        """Accuracy at each mark. If `mirrored`, the mean gradient of each image and its mirror image is clipped.

        The check before training may refuse a deep network with some initial weights, because rounding switches a
        maximum or a sign. Then other initial weights are tried, and on a GPU float32 instead of TF32 at last.
        """
        precisions = ("float32",) if device == "cpu" else ("tf32", "float32")
        *ways, last = itertools.product(precisions, range(STARTS))
        for precision, start in ways:
            try:
                return self._run(device, precision, start)
            except Refused:
                free_memory(device)
        return self._run(device, *last)

    def _run(self, device: str, precision: str, start: int) -> Result:
        """As `run`, in one precision; `start` numbers the initial weights of a seed."""
        from privaware.learners._networks import augmentation as _augmentation

        case, (fits, test) = CASES[self.data], self.parts or rows(self.data)
        marks = self.marks or case.marks
        descent = Descent(
            steps=marks[-1],
            sampler=Poisson(rate=case.batch / len(fits)),
            clip=flat(0.1),
            update=momentum(self.lr, 0.9),
            average=ema(),
            copies=2 if self.mirrored else 1,
            augment=_augmentation.mirrored if self.mirrored else None,
            precision=precision,
            microbatch=None if device == "cpu" else self.microbatch,
        )
        scored = Marks(tensors(test, self.data, device), marks)
        descent.run(
            models.build(self.network, np.random.default_rng([self.seed, start] if start else self.seed)),
            *tensors(fits, self.data, device),
            noise=case.noise,
            rows=len(fits),
            rng=Rng(seed=self.seed),
            device=device,
            callbacks=Callbacks(on_step=[scored]),
        )
        free_memory(device)
        size, cell = models.count(self.network), self.network.get("cell")
        known = {"accuracy": scored.averaged, "last": scored.last, "lr": self.lr, "parameters": size, "cell": cell}
        return {"score": scored.averaged[-1], **known, "precision": precision, "start": start}


def earlier(bench: Bench, item: str, **settings: Any) -> Result:
    """The result of another item of this paper, which must be in the same store."""
    cells = [] if bench.out is None else Store(bench.out / "cells.jsonl").of(item)
    for cell in cells:
        if all(cell.settings.get(name) == value for name, value in settings.items()):
            return cell.result
    raise WrongInput(f"this item reads the result of {item} {settings or ''}: run `privaware reproduce {item}` first")


def train(bench: Bench, settings: Settings, *, data: str, marks: tuple[int, ...] = ()) -> Result:
    """One network of a table or of Figure 1 or 3, trained from scratch; `marks` replace those of the data set."""
    marks = marks or CASES[data].marks
    network, lr = _network(bench, data, settings, marks[-1])
    training = Training(data=data, network=network, seed=settings["seed"], lr=lr, marks=marks)
    if settings["network"] in COMPARED:
        training = replace(training, microbatch=None)  # as many rows as the memory holds
    return replace(training, mirrored=settings["network"] == "mirrored").run(bench.device)


def _network(bench: Bench, data: str, settings: Settings, steps: int) -> tuple[dict[str, Any], float]:
    """The description behind the name of a network, and the learning rate of a training of `steps` steps."""
    case, name = CASES[data], settings["network"]
    if name == "cnn":
        more = {"pooling": "average"} if settings.get("pooling") else {"activation": settings.get("activation", "tanh")}
        return {**case.cnn, **more}, case.cnn_lr
    if name in COMPARED:
        tuned = f"{name}-S" if f"{name}-S" in COMPARED else name
        network, short = compared(name, data), earlier(bench, f"dpnas/rates/{data}", network=tuned)["lr"]
    else:
        small = case.small if name in ("small", "sgd", "random", "dp", "paper_controller") else {}
        network = described(data, _cell(bench, data, settings), **small)
        short = earlier(bench, f"dpnas/derive/{data}")["lr"]
    # The rate of all steps from that of the short training: noise adds up with the root of their number.
    return network, round(short * float(case.marks[1] / steps) ** 0.5, 3)


def _cell(bench: Bench, data: str, settings: Settings) -> list[Any]:
    """The cell behind the name of a network."""
    from privaware.strategies._dpnas.cells import uniform_cells

    name = settings["network"]
    if name == "paper":
        return list(tables("dpnas")["cells"][data])
    if name == "random":
        return list(uniform_cells(20, 5, np.random.default_rng(7))[settings["cell"]])
    if name in ("sgd", "dp", "paper_controller"):
        seed = settings.get("search_seed", 0)
        return list(earlier(bench, f"dpnas/search/{data}", variant=name, seed=seed)["cells"][settings["cell"]])
    return list(earlier(bench, f"dpnas/derive/{settings.get('searched_on', data)}")["cell"])


def tune(bench: Bench, settings: Settings, *, data: str) -> Result:
    """The learning rate of a network of Table 2 or Figure 1, by short private trainings as in `derive`."""
    seed, network, parts = settings["seed"], compared(settings["network"], data), halves(data, settings["seed"])
    short = Training(data=data, network=network, seed=seed, lr=1.0, marks=CASES[data].marks[1:2], parts=parts)
    tried = [{"lr": lr, "score": replace(short, lr=lr, microbatch=None).run(bench.device)["score"]} for lr in RATES]
    return {**max(tried, key=lambda one: float(one["score"])), "tried": tried}


def plain(bench: Bench, settings: Settings, *, data: str) -> Result:
    """A network of Figure 1 trained without privacy, by SGD with momentum on shifted and mirrored images."""
    from privaware.learners._networks.augmentation import shifted_mirrored
    from privaware.learners._networks.plain_descent import PlainDescent

    name, (fits, test) = settings["network"], rows(data)
    chosen = compared(name, data) if name in COMPARED else _network(bench, data, settings, 1)[0]
    steps = round(PLAIN_EPOCHS * len(fits) / PLAIN_BATCH)
    recipe: dict[str, Any] = {"steps": steps, "batch": PLAIN_BATCH, "lr": PLAIN_LR, "decay": 5e-4}
    descent = PlainDescent(**recipe, augment=shifted_mirrored, device=bench.device)
    module = models.build(chosen, np.random.default_rng(settings["seed"]))
    trained = descent.run(module, *tensors(fits, data, bench.device), Rng(seed=settings["seed"]))
    score = accuracy(trained, *tensors(test, data, bench.device))
    free_memory(bench.device)
    return {"score": score, "parameters": models.count(chosen), "steps": steps}


def derive(bench: Bench, settings: Settings, *, data: str) -> Result:
    """Which of the cells that a search proposes, and which learning rate, by short private trainings.

    They have the small form, the rows that trained the search, the steps up to epsilon 2, and are scored on the rows
    that scored the search: test rows have no part in it.
    """
    case, seed = CASES[data], settings["seed"]
    result = earlier(bench, f"dpnas/search/{data}", variant="dp", seed=seed)
    parts = halves(data, seed)
    tried: list[dict[str, Any]] = []

    def attempt(cell: list[str], lr: float) -> None:
        network = described(data, cell, **case.small)
        short = Training(data=data, network=network, seed=seed, lr=lr, marks=case.marks[1:2], parts=parts)
        tried.append({"cell": cell, "lr": lr, "score": short.run(bench.device)["score"]})

    for at in np.argsort(result["scores"])[::-1][: case.tried]:
        attempt(result["cells"][at], case.lr)
    ranked = sorted(tried, key=lambda one: float(one["score"]), reverse=True)
    for one in ranked[:RETRIED]:
        attempt(one["cell"], 2 * case.lr)
    best, faster = ranked[0], max(tried[len(ranked) :], key=lambda one: float(one["score"]))
    return {**(faster if faster["score"] > best["score"] + GAIN else best), "tried": tried}
