"""DPGEN: images synthesised by a score network, trained on randomised responses of rows. No guarantee as published.

As published:

1. Each row gets noise. Its target is itself or, by randomised response, another row of a random candidate set.
2. A score network learns the moves from noisy rows to their targets. Annealed Langevin dynamics samples images from it.
3. A classifier labels the images. It is trained on `public` rows; if None, on the private rows, as published.
4. A network learns from the labelled images.

The `variant` "corrected" trains the same score network, conditioned on the class, by DP-SGD: the mean gradient over
several noise draws of a row is clipped as one. The classes of the images are chosen beforehand, so no labelling
classifier reads a row. By default (`stages` 0) the score is the score of a normal distribution around one learnt image
for each class, without a network.

Paper: Chen, Yu, Kao, Pang, Lu 2022, DPGEN: Differentially Private Generative Energy-Guided Network for Natural Image
Synthesis; algorithm DPGEN of DPMLBench (classifier: learning rate 0.01, batch 1024, 100 epochs). The correction follows
Dockhorn, Cao, Vahdat, Kreis 2023, Differentially Private Diffusion Models, arXiv:2210.09929, who show the flaw.
Privacy: none as published. The answers of the randomised response are rows: a row in the data is an answer with the
keep probability, a row not in the data never is. No finite epsilon bounds that ratio. The labelling classifier has no
noise either. The cost is `Unproven`, which every ledger refuses: as published it runs on public data only, in
benchmarks. Corrected: (epsilon, delta) for one row added or removed. A row's clipped gradient changes the sum of a step
by at most `norm`, and sampling reads the trained network alone.
Use when: comparing with DPMLBench. For images that may be released take the corrected variant or `private_set`; for a
model, `dpsgd` is more accurate.

>>> from privaware.schema import Schema
>>> schema = Schema(form="image", shape=(1, 28, 28), classes=tuple("0123456789"), rows=60_000)
>>> type(DpGen().cost(schema, noise=0.1)).__name__
'Unproven'
>>> DpGen(variant="corrected", score={"steps": 500}).cost(schema, noise=1.0)
Repeated(event=Sampled(event=Gaussian(noise=1.0), rate=0.004266666666666667), count=500)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from privaware._validate import expect, expect_between, expect_count, expect_in, expect_one_of
from privaware.data import Data
from privaware.errors import WrongInput
from privaware.events import Event, Unproven
from privaware.learners._networks.journal import ReleaseJournal
from privaware.learners._networks.plain_descent import of_stage, paced
from privaware.learners._networks.plain_network import PlainNetwork
from privaware.model import Model
from privaware.noise import Rng
from privaware.schema import Schema

__all__ = ["DpGen", "ScoreSettings"]

PLAUSIBLE = 5.0
"""Largest plausible difference of a pixel between a noisy row and the answer in its pair, divided by the noise level.

A pair with a larger difference gets a larger noise level (see `plausible_level`).
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairs:
    """Training pairs of a noisy row and the answer of a randomised response.

    `noisy` (pairs, ...) are rows plus Gaussian noise. `answer` (pairs,) is the position, among the rows, of the row
    that the randomised response returned: often not the row to which the noise was added. `level` (pairs,) is the
    standard deviation of noise that the score network is told. It is the standard deviation of the added noise, or a
    larger one (see `plausible_level`).
    """

    noisy: np.ndarray
    answer: np.ndarray
    level: np.ndarray


def response_pairs(
    rows: np.ndarray, levels: np.ndarray, *, epsilon: float, candidates: int, pairs: int, rng: Rng
) -> Pairs:
    """Return `pairs` pairs of a noisy row and the answer of its randomised response; no pair if there are no rows.

    `levels` are standard deviations of noise in decreasing order. The rows are shuffled and cut into sets of
    `candidates` rows (the last set may have fewer), again and again until there are enough pairs. The answer for a row
    is a row of the same set: itself with the keep probability of randomised response at `epsilon`, otherwise another
    one. Gaussian noise with a standard deviation drawn from `levels` is added to the row. The pair states this level,
    or a larger one where `plausible_level` demands it.
    """
    position, answer = np.zeros(0, np.int64), np.zeros(0, np.int64)
    while len(rows) and len(position) < pairs:
        order = np.arange(len(rows))
        rng.shuffle(order)
        for start in range(0, len(order), candidates):
            members = order[start : start + candidates]
            own = np.arange(len(members))
            response = rng.respond(own, epsilon=epsilon, classes=len(own)) if len(own) > 1 else own
            position, answer = np.append(position, members), np.append(answer, members[response])
    position, answer = position[:pairs], answer[:pairs]
    number = rng.initial.integers(len(levels), size=len(position))
    noise = rng.initial.standard_normal((len(position), *rows.shape[1:]), dtype=np.float32)
    noisy = rows[position] + levels[number].reshape(-1, *[1] * (rows.ndim - 1)) * noise
    apart = np.abs(noisy - rows[answer]).max(axis=tuple(range(1, rows.ndim)), initial=0.0)
    number = np.minimum(number, plausible_level(apart, levels))
    return Pairs(noisy=noisy.astype(np.float32), answer=answer, level=levels[number])


def plausible_level(apart: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return, for each pair, the index of the smallest of `levels` that is at least `apart / PLAUSIBLE`; 0 if none is.

    `apart` (pairs,) is the largest absolute difference of a pixel between the two rows of a pair. `levels` are in
    decreasing order.

    >>> plausible_level(np.array([0.0, 4.9, 5.1, 99.0]), np.array([10.0, 1.0, 0.1])).tolist()
    [2, 1, 0, 0]
    """
    enough = levels >= apart[:, None] / PLAUSIBLE
    return np.maximum(enough.sum(axis=1) - 1, 0)


VARIANTS = ("published", "corrected")
"""Variants of the algorithm: without a guarantee as published, or trained by DP-SGD."""
REASON = (
    "the randomised response of DPGEN answers with private images themselves: a row that is there is an answer with"
    " the keep probability, a row that is not there never; take variant corrected"
)
"""Why the published variant has no guarantee."""


@dataclass(frozen=True, kw_only=True)
class ScoreSettings:
    """Settings of the score network, its training and its sampling; the defaults are for the variant "published".

    `width` is the number of channels and `stages` the number of residual stages of the network; with 0 stages one image
    for each class is learnt, and no network. There are `levels` noise levels with standard deviations from `largest` to
    `smallest`, for pixels in [0, 1]. Training takes `steps` batches of `batch` rows with Adam's learning rate `lr`;
    `ema` is the decay of the average of the weights. Sampling takes `langevin` Langevin steps at each level; their size
    is `rate * (level / smallest)**2`.
    """

    width: int = 128
    stages: int = 4
    levels: int = 232
    largest: float = 50.0
    smallest: float = 0.01
    steps: int = 300_001
    batch: int = 128
    lr: float = 1e-4
    ema: float = 0.999
    langevin: int = 5
    rate: float = 6.2e-6

    def __post_init__(self) -> None:
        expect_count("dpgen", width=self.width, levels=self.levels, steps=self.steps)
        expect_count("dpgen", batch=self.batch, langevin=self.langevin)
        expect_count("dpgen", 0, stages=self.stages)
        expect_between("dpgen", 1e-12, 1e6, largest=self.largest, smallest=self.smallest, lr=self.lr, rate=self.rate)
        expect(self.smallest <= self.largest, "dpgen", f"smallest up to largest ({self.largest:g})", self.smallest)
        expect_in("dpgen", "[0, 1)", ema=self.ema)


CORRECTED: dict[str, Any] = {"width": 16, "stages": 0, "levels": 32, "largest": 5.0, "smallest": 0.05, "rate": 6e-4}
CORRECTED |= {"steps": 200, "batch": 256, "lr": 0.01, "ema": 0.95}
"""Defaults of `ScoreSettings` for the variant "corrected": fewer weights and steps, because each gets noise."""


@dataclass(frozen=True, kw_only=True)
class DpGen(PlainNetwork):
    """A learner that trains a network on synthetic images.

    As published, randomised response has epsilon `1 / noise`, which protects no row because the answers are rows. A
    classifier labels the images; it is trained on the `public` rows, or on the private rows if `public` is None.
    Corrected, `noise` is the noise multiplier of DP-SGD.

    Parameters
    ----------
    variant : str
        "published", which has no guarantee, or "corrected".
    score : mapping, optional
        A table of `ScoreSettings` that replace the defaults of the variant.
    samples : int
        Number of synthetic images.
    candidates : int
        As published only: number of rows among which the answer to a row is drawn.
    pairs : int
        As published only: number of pairs of a row and its answer.
    norm : float
        Corrected only: the clipping norm.
    draws : int
        Corrected only: number of draws of noise for a row at each step.

    Notes
    -----
    The other settings belong to the network that learns from the images.
    """

    on_ranks: ClassVar[bool] = True
    tasks: ClassVar[tuple[str, ...]] = ("classification",)
    phase: ClassVar[str] = "data preparation"
    guarantee: ClassVar[str] = "none: answers with private images themselves; (epsilon, delta) with variant = corrected"
    auxiliary: ClassVar[str] = "public labelled rows, as published only; without them private ones label the images"

    variant: str = "published"
    score: dict[str, Any] | None = None
    samples: int = 10_000
    candidates: int = 256
    pairs: int = 60_000
    norm: float = 0.02
    draws: int = 4
    public: Data | None = field(default=None, repr=False)
    epochs: float = 100.0
    batch: int = 1024
    lr: float | None = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_one_of("dpgen", VARIANTS, variant=self.variant)
        expect_count("dpgen", samples=self.samples, pairs=self.pairs, draws=self.draws)
        expect_count("dpgen", 2, candidates=self.candidates)
        expect_between("dpgen", 1e-9, 1e9, norm=self.norm)
        expect(self.score is None or isinstance(self.score, dict), "dpgen", "score as a table", self.score)
        stages = self._settings().stages
        expect(stages or self.variant == "corrected", "dpgen", "stages of at least 1 for the variant published", stages)

    def _settings(self) -> ScoreSettings:
        known = [item.name for item in fields(ScoreSettings)]
        score = self.score or {}
        expect(set(score) <= set(known), "dpgen", f"score with settings among {', '.join(known)}", sorted(score))
        return replace(ScoreSettings(**(CORRECTED if self.variant == "corrected" else {})), **score)

    def cost(self, schema: Schema, noise: float) -> Event:
        if schema.form != "image" or math.prod(schema.shape[1:]) < 2:
            raise WrongInput(f"dpgen: expected images to learn from, got a {schema.form}; choose another learner")
        self._architecture(schema)  # a wrong one is refused before anything is charged
        return Unproven(reason=REASON) if self.variant == "published" else self._recipe(schema).cost(noise)

    def _run_all(self, data: Data, noises: Sequence[float], rng: Rng) -> list[Model]:
        synthetic = (self.synthesise(data, noise, rng) for noise in noises)
        return [self._trained_on(replace(data, x=images, y=labels), rng) for images, labels in synthetic]

    def synthesise(self, data: Data, noise: float, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
        """Return `samples` synthetic images, with pixels in [0, 1], and their class codes.

        The shapes are (samples, channels, height, width) and (samples,). As published, a classifier chooses the codes
        after sampling. Corrected, the codes are chosen first: 0, 1, 2 and so on in turn, so all classes have the same
        number of images, up to one.
        """
        classes = len(data.schema.classes)
        if self.variant == "published":
            network = self._trained_on_responses(data, 1 / noise if noise else math.inf, rng)
            images = self._sampled(network, data.schema, None, rng)
            classifier = self._trained_on(data if self.public is None else self.public, rng)
            return images, np.asarray(classifier.outputs(images, self.device).argmax(axis=1))
        labels, journal = np.arange(self.samples) % classes, self._journal(data.schema, noise)

        def drawn() -> dict[str, np.ndarray]:
            network = self._trained_privately(data, noise, rng, journal)
            return {"images": self._sampled(network, data.schema, np.eye(classes, dtype=np.float32)[labels], rng)}

        return journal.kept("images", drawn)["images"], labels

    def _trained_on(self, data: Data, rng: Rng) -> Model:
        return self._learned(data.schema, self._rows(data), data.y, rng)

    def _network(self, schema: Schema, rng: Rng, classes: int = 0) -> Any:
        from privaware.learners._networks.score_network import ScoreNetwork
        from privaware.models._description import seeded

        settings = self._settings()
        with seeded(rng):
            return ScoreNetwork(schema.shape, settings.width, settings.stages, classes).to(self.device)

    def _training(self) -> Any:
        from privaware.learners._networks.score_network import ScoreTraining

        settings = self._settings()
        progress = of_stage(self.progress, "score network")
        return ScoreTraining(steps=settings.steps, lr=settings.lr, ema=settings.ema, progress=progress)

    def _levels(self) -> Any:
        from privaware.learners._networks.score_network import noise_levels

        settings = self._settings()
        return noise_levels(settings.largest, settings.smallest, settings.levels).to(self.device)

    def _trained_on_responses(self, data: Data, epsilon: float, rng: Rng) -> Any:
        """Return the score network of the variant "published", trained on randomised responses with `epsilon`.

        Gradients are neither clipped nor noised. If `data` has no rows, the network is returned untrained.
        """
        import torch

        levels, batch = self._levels(), self._settings().batch
        rows = _pixels(data)
        pairs = response_pairs(
            rows, levels.cpu().numpy(), epsilon=epsilon, candidates=self.candidates, pairs=self.pairs, rng=rng
        )
        network = self._network(data.schema, rng)
        if not len(rows):
            return network
        parameters = list(network.parameters())

        def gradients() -> Any:
            at = rng.initial.integers(len(pairs.answer), size=batch)
            drawn = (pairs.noisy[at], rows[pairs.answer[at]], pairs.level[at])
            noisy, answer, level = (torch.from_numpy(part).to(self.device) for part in drawn)
            move = (answer - noisy) / level.view(-1, 1, 1, 1)
            loss = (network(noisy, level) - move).square().flatten(1).sum(1).mean() / 2
            return torch.autograd.grad(loss, parameters)

        return self._training().run(network, gradients)

    def _trained_privately(self, data: Data, noise: float, rng: Rng, journal: ReleaseJournal) -> Any:
        """Return the class-conditional score network of the variant "corrected", trained by DP-SGD and Adam.

        Its weights are the moving average over the steps. If the `journal` holds a state, training continues from the
        last one.
        """
        import torch

        from privaware.descent import gradient_queries
        from privaware.learners._networks.score_network import Denoising

        schema, levels = data.schema, self._levels()
        classes = len(schema.classes)
        module = Denoising(self._network(schema, rng, classes), self.draws).to(self.device)
        one_hot = np.eye(classes, dtype=np.float32)[data.y]
        with gradient_queries(
            self._recipe(schema),
            module,
            (torch.from_numpy(_pixels(data)), torch.from_numpy(one_hot)),
            torch.from_numpy(data.y),
            noise=noise,
            rows=schema.rows,
            rng=rng,
            device=self.device,
        ) as query:

            def gradients() -> Any:
                module.draw(levels, rng.initial)
                released = query(module)
                return [released[name] for name, _ in module.named_parameters()]

            return self._training().run(module, gradients, journal).network

    def _recipe(self, schema: Schema) -> Any:
        from privaware import descent
        from privaware.learners._networks.score_network import residual_loss

        settings = self._settings()
        rate = min(1.0, settings.batch / schema.rows)
        return descent.Descent(
            steps=settings.steps,
            sampler=descent.FullBatch() if rate == 1 else descent.Poisson(rate=rate),
            clip=descent.flat(self.norm),
            update=descent.sgd(1.0),  # not used: Adam and its average are post-processing
            loss=residual_loss,
        )

    def _sampled(self, network: Any, schema: Schema, one_hot: np.ndarray | None, rng: Rng) -> np.ndarray:
        from privaware.learners._networks.score_network import Langevin

        settings = self._settings()
        initial = rng.initial.random((self.samples, *schema.shape), dtype=np.float32)
        langevin = Langevin(levels=self._levels(), steps=settings.langevin, rate=settings.rate)
        report = paced(self.progress, self.samples, "images")
        return langevin.run(network.eval(), initial, one_hot, rng.initial, report)


def _pixels(data: Data) -> np.ndarray:
    """Return the images of `data` as float32, with pixels clipped to [0, 1]; NaN becomes 0."""
    return np.clip(np.nan_to_num(np.asarray(data.x, dtype=np.float32), nan=0.0), 0.0, 1.0)
