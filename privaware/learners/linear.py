"""Softmax or linear regression on rows of bounded norm, by private gradient descent.

By default tables are one-hot encoded from the schema (public bins, declared categories), images flattened and texts
hashed. With `features`, the named features are applied instead, such as the prior for images. Every row then has norm
at most 1. Each step sums the clipped gradients of the rows, whose norms have a closed form, adds Gaussian noise and
divides by the declared number of rows. Steps use momentum, and the average of the last iterates is released.

Four settings spend part of the budget on other releases. `centre` releases the mean of the rows first, and rows are
then centred on it. `base` releases the class frequencies, which set the initial biases. `weigh` weights the feature
blocks of a row, such as the features of several networks (`_linear/weigh_networks.py`). `check` compares a regression
with the mean of the target, and releases the mean unless the regression is clearly better.

Paper: Abadi et al. 2016, Deep Learning with Differential Privacy, arXiv:1607.00133; full batches and averaging after
Tramer and Boneh 2021, arXiv:2011.11660, and De et al. 2022, arXiv:2204.13650.
Privacy: (epsilon, delta) for one row added or removed, by Gaussian releases. A row's gradient is clipped to `norm`, so
the row changes the sum of a step by at most `norm`; there are `steps` such releases, Poisson-sampled when `rate` is
below 1. The mean of the rows, the class counts, and the mean and the gain of the check are each one more release of a
sum that a row changes by at most 1. The margins of m blocks are one release of m sums that a row changes by at most 1
each. Rows and residuals lie on public lattices, a clipped gradient is a function of its row alone, bit for bit, and
sums are exact in any order (`_linear/gradient.py`). The sensitivity bound therefore holds in floating-point arithmetic,
for any number of rows. Named `features` are computed in microbatches of one shape, so small that a probe finds no
effect of the position of a row.
Use when: rows are few, the budget is small, or features are good. `auto` takes it for images, texts and some tables.

A linear model on images: `Linear(features=[{"name": "prior", "scatter": 1.0}])`.

>>> from privaware.testing import rows_for
>>> from privaware.schema import Column, Schema
>>> from privaware.noise import Rng
>>> schema = Schema(columns=(Column(name="c", low=-1, high=1),), classes=("n", "y"), rows=200)
>>> model = Linear(steps=20).run(rows_for(schema, 200), noise=0.5, rng=Rng(seed=1))
>>> sorted(model.tensors)
['output.bias', 'output.weight']
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privaware import features as transforms
from privaware._validate import expect_between, expect_count, expect_in
from privaware.data import Data, Rows
from privaware.errors import WrongInput
from privaware.events import Event, Gaussian
from privaware.exact_sums import clip_rows, column_sums, count
from privaware.features.bounded import Bounded
from privaware.features.mixed import Mixed
from privaware.learners import Learner
from privaware.learners._centring import Centre
from privaware.learners._fixed_features import feature_for, linear_model, rows_after, rows_of, shape_after
from privaware.learners._linear.comparison import MEAN_FRACTION, is_better, noisy_mean
from privaware.learners._linear.weigh_networks import (
    FIRST_STEPS_FRACTION,
    MARGIN_CLIP,
    factors,
    part_lengths,
    part_weights,
    weigh,
    with_kept,
)
from privaware.learners._networks.plain_descent import paced
from privaware.model import Model, scaled
from privaware.noise import Rng
from privaware.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor

    from privaware.learners._linear.gradient import LinearGradient
    from privaware.learners._linear.parts import PartsGradient

__all__ = ["Linear"]


@dataclass(frozen=True, kw_only=True)
class Linear(Learner):
    """Softmax or linear regression by private gradient descent.

    Parameters
    ----------
    steps : int
        Number of gradient steps.
    rate : float
        Sampling rate of the Poisson samples; 1 takes all rows in every step.
    norm : float
        Clipping norm.
    lr : float, optional
        Learning rate; by default it is chosen from public facts: rows, width and noise multiplier.
    momentum : float
        Momentum coefficient.
    average : float
        Fraction of the iterates, the last ones, whose average is released.
    bins : int
        Number of bins for numeric columns that declare none; 0 keeps their numbers, scaled to [-1, 1].
    features : list of dict, optional
        Descriptions of `privaware.features`, applied in order; each row of the result is scaled to norm 1. By default a
        feature is chosen from the schema.
    constant : float, optional
        Public number that is appended to every row, so that its weight is the bias; noise grows with it. The default is
        1, or 0.1 with `features`.
    centre : float
        Fraction of the budget (measured by squared inverse noise multipliers) for a private mean of the rows, on which
        they are centred. 0 skips the release.
    base : float
        Fraction of the budget for the class frequencies whose logarithms are the initial biases (classification only).
        0 skips the release.
    weigh : float
        Fraction of the budget for weighting the feature blocks of a row (classification only). 0 skips the release.
    check : float
        Largest fraction of the budget for comparing a regression with the mean of its target; with many rows less is
        used.
    device, progress
        The device and a progress callback. They do not change the released model.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "regression")
    sums: ClassVar[str] = "exact"
    in_parts: ClassVar[bool] = True

    steps: int = 100
    rate: float = 1.0
    norm: float = 0.5
    lr: float | None = None
    momentum: float = 0.9
    average: float = 0.5
    bins: int = 0
    features: list[dict[str, Any]] | None = None
    constant: float | None = None
    centre: float = 0.0
    base: float = 0.0
    weigh: float = 0.0
    check: float = 0.0
    device: str = field(default="cpu", repr=False, compare=False)
    progress: Callable[..., None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        expect_in("linear", "(0, 1]", rate=self.rate)
        expect_in("linear", "[0, 1)", momentum=self.momentum)
        expect_in("linear", "[0, 1]", average=self.average)
        expect_count("linear", steps=self.steps)
        expect_count("linear", 0, bins=self.bins)
        expect_between("linear", 1e-9, 1e9, norm=self.norm)  # float32 must hold it
        expect_between("linear", 1e-9, 1e9, optional=True, lr=self.lr)
        expect_between("linear", 1e-3, 1e3, optional=True, constant=self.constant)
        expect_between("linear", 0, 0.45, centre=self.centre, base=self.base, weigh=self.weigh)
        expect_between("linear", 0, 0.4, check=self.check)
        if self._before + self.check > MAX_OTHER_RELEASES:
            parts = f"centre {self.centre:g}, base {self.base:g}, weigh {self.weigh:g} and check {self.check:g}"
            raise WrongInput(
                f"linear: expected at most {MAX_OTHER_RELEASES:g} of the budget for releases beside steps, got {parts}"
            )
        if 2 * self.check > 1 - self._before:  # otherwise more noise would cost more
            raise WrongInput(
                f"linear: expected check of at most {(1 - self._before) / 2:g}, half of the budget that centre, base "
                f"and weigh leave, got {self.check:g}"
            )
        if self.features is not None and not isinstance(self.features, list):
            raise WrongInput(
                f'linear: expected features as a list such as [{{"name": "prior"}}], got {self.features!r:.80}'
            )

    def cost(self, schema: Schema, noise: float) -> Event:
        self._width(schema)  # raises before any charge if the features do not fit the rows
        cost: Event = self.steps * self._sampler.event(Gaussian(noise=noise))
        check = self._check(schema, noise)
        self._parts(schema)
        for part in (self.centre, self.base if schema.classes else 0.0, self.weigh):
            cost = Gaussian(noise=noise * self._share(part, check)) + cost if part else cost
        for part in (MEAN_FRACTION * check, (1 - MEAN_FRACTION) * check):
            cost = cost + Gaussian(noise=noise * self._share(part, check)) if check else cost
        return cost

    def run(self, data: Rows, noise: float, rng: Rng) -> Model:
        alone = self.features is None and not (self.centre or self.base) and self.device == "cpu"
        if alone and data.schema.form == "table" and not isinstance(data, Data):
            return self._run_in_parts(data, noise, rng)
        data = data.gathered()
        return self.run_on(self.rows_for(data), data, noise, rng)

    def _run_in_parts(self, data: Rows, noise: float, rng: Rng) -> Model:
        """Train as `run` does, by sums over the parts of a table, so that the rows need not fit into memory.

        It is for tables without named `features`, on a CPU, if `centre` and `base` are 0. `noise` is the noise
        multiplier of one step.
        """
        from privaware.learners._linear.parts import PartsGradient

        schema, chain = data.schema, self._chain(data.schema)
        gradient = PartsGradient(data, chain[0], constant=self._constant, norm=self.norm)
        learned = self._descend(gradient, schema, noise, rng, np.zeros(max(len(schema.classes), 1)))
        weights = self._compared(gradient, learned, schema, noise, rng).numpy()
        return linear_model(schema, chain, weights[:, :-1], self._constant * weights[:, -1])

    def rows_for(self, data: Data) -> Any:
        """Return the rows of `data` as `run_on` takes them: float32 (rows, width), each of norm at most 1.

        Entries after the features are rounded to multiples of 2^-12. The result is an array if `device` is "cpu",
        otherwise a tensor on the device.
        """
        from privaware.learners._linear.gradient import ROWS

        chain = self._chain(data.schema)
        rows: Any = (
            rows_of(data, chain[0]) if self.features is None else rows_after(chain, data, progress=self.progress)
        )
        if self.device != "cpu":
            import torch

            rows = torch.from_numpy(rows.astype(np.float32, copy=False)).to(self.device)
        return clip_rows(rows, 1.0, ROWS, np.float32)

    def run_on(self, rows: Any, data: Data, noise: float, rng: Rng) -> Model:
        """Train on `rows`, the result of `rows_for(data)`, and return the released model.

        `data` gives the targets and the schema, and `noise` is the noise multiplier of one step. With `centre` above 0
        the call changes `rows` in place; otherwise several runs may share them.
        """
        schema = data.schema
        centre = self._centred(rows, schema, noise, rng) if self.centre else None
        bias = self._initial_bias(data, noise, rng)
        if self.weigh:
            weights = self._weighed(data, rows, centre, noise, rng, bias)
        else:
            gradient = self._gradient(data, rows)
            learned = self._descend(gradient, schema, noise, rng, bias)
            weights = self._compared(gradient, learned, schema, noise, rng).cpu().numpy()
        weight, bias = weights[:, :-1], self._constant * weights[:, -1]
        outputs = centre.outputs_for(weight, bias) if centre is not None else (weight, bias)
        return linear_model(schema, self._chain(schema), *outputs)

    def _weighed(
        self, data: Data, rows: Any, centre: Centre | None, noise: float, rng: Rng, bias: np.ndarray
    ) -> np.ndarray:
        """Return the weights (outputs, width + 1) of a model whose feature blocks are weighted by noisy margins.

        First steps are taken on blocks of equal norm. Then noisy sums of each block's margins are released, and the
        other steps are taken on blocks with weights that follow from them. The returned weights apply to `rows` as they
        are given, before blocks are weighted. `centre` is the centre of `rows`, or None if they are not centred. `bias`
        (outputs,) holds the initial biases, and `noise` is the noise multiplier of one step.
        """
        from privaware.learners._linear.gradient import ROWS

        schema, parts = data.schema, self._parts(data.schema)
        first = max(1, round(FIRST_STEPS_FRACTION * self.steps))
        mean, scale = (centre.mean, centre.scale) if centre is not None else (np.zeros(rows.shape[1]), 1.0)
        lengths = part_lengths(parts, mean, scale)
        weighed = parts[:-1] if isinstance(self._chain(schema)[0], Mixed) else parts  # other columns keep their norm
        alike = factors(with_kept(np.ones(len(weighed)), parts), parts, lengths)
        gradient = self._gradient(data, weigh(rows, alike, ROWS))
        weights = self._descend(gradient, schema, noise, rng, bias, range(first))
        exact_margins = gradient.margins(weights, [columns for columns, _ in weighed], MARGIN_CLIP)
        of_margins, moved = noise * self._share(self.weigh, 0.0), math.sqrt(len(weighed))
        noisy = rng.gaussian(exact_margins, noise=of_margins, sensitivity=moved)
        chosen = factors(with_kept(part_weights(noisy, weighed, of_margins * moved), parts), parts, lengths)
        gradient = self._gradient(data, weigh(rows, chosen, ROWS))
        weights = self._descend(gradient, schema, noise, rng, weights, range(first, self.steps))
        return np.asarray(weights.cpu().numpy() * np.append(chosen, 1.0))

    def _parts(self, schema: Schema) -> Any:
        """Return, for each feature block, its number of columns and its norm; an empty tuple if `weigh` is 0.

        If `weigh` is above 0, there must be classes, and `features` must be a single feature that gives a row several
        blocks. Otherwise `WrongInput` is raised.
        """
        if not self.weigh:
            return ()
        chain = self._chain(schema)
        parts = chain[0].parts(schema) if isinstance(chain[0], Mixed) else getattr(chain[0], "parts", ())
        alone = self.features is not None and len(self.features) == 1
        if not (alone and len(parts) > 1 and schema.classes):
            raise WrongInput(
                "linear: expected classes and one feature of several blocks to weigh, such as extractor with glyphs, "
                f"got {len(parts)} blocks of {self.features!r:.80}; leave weigh out"
            )
        return parts

    def _share(self, part: float, check: float) -> float:
        """Return the ratio of the noise multiplier of a release other than a step to the noise multiplier of one step.

        The release takes the fraction `part` of the budget, and the check of a regression takes the fraction `check`.
        The `steps` steps, at sampling rate `rate`, share what `centre`, `base`, `weigh` and the check leave.
        """
        return math.sqrt((1 - self._before - check) / (part * self.steps)) / self.rate

    @property
    def _before(self) -> float:
        """The fraction of the budget for the releases of `centre`, `base` and `weigh` together."""
        return self.centre + self.base + self.weigh

    def _check(self, schema: Schema, noise: float) -> float:
        """Return the fraction of the budget that compares a regression with the mean of its target; 0 for classes.

        It is `min(check, (CHECK_SIGNAL / signal)**2)` with `signal = rows * rate * sqrt(steps) / noise`, where `noise`
        is the noise multiplier of one step and `rows` is the declared number.
        """
        signal = schema.rows * self.rate * math.sqrt(self.steps) / noise
        return 0.0 if schema.classes else min(self.check, (CHECK_SIGNAL / signal) ** 2)

    def _compared(
        self, gradient: LinearGradient | PartsGradient, weights: Tensor, schema: Schema, noise: float, rng: Rng
    ) -> Tensor:
        """Return `weights`, or weights that predict the noisy mean of the target if the check finds no clear gain.

        `gradient` has the private rows, and `weights` (outputs, width + 1) is the result of the steps. `noise` is the
        noise multiplier of one step. Without a check (`check` 0, or classes) nothing is released and `weights` are
        returned.
        """
        check = self._check(schema, noise)
        if not check:
            return weights
        of_mean, of_gain = (noise * self._share(part * check, check) for part in (MEAN_FRACTION, 1 - MEAN_FRACTION))
        constant = weights.new_zeros(weights.shape)
        mean = noisy_mean(float(gradient.gains(constant, 0.0).value[1]), schema.rows, of_mean, rng)
        if is_better(float(gradient.gains(weights, mean).value[0]), schema.rows, of_gain, rng):
            return weights
        constant[:, -1] = mean / self._constant
        return constant

    def _initial_bias(self, data: Data, noise: float, rng: Rng) -> np.ndarray:
        """Return the initial bias of each class: the logarithms of noisy class frequencies, minus their mean.

        The result is (classes,). The frequencies are one release; `noise` is the noise multiplier of one step. If
        `base` is 0 nothing is released and the biases are zeros, as is the one bias of a regression.
        """
        classes = len(data.schema.classes)
        if not self.base or not classes:
            return np.zeros(max(classes, 1))
        noise *= self._share(self.base, 0.0)
        noisy = rng.gaussian(count(data.y, classes), noise=noise, sensitivity=1.0)
        logarithms = np.log(np.maximum(noisy, max(noise, 1.0)))
        return np.asarray(logarithms - logarithms.mean())

    def _centred(self, rows: Any, schema: Schema, noise: float, rng: Rng) -> Centre:
        """Release the noisy mean of `rows` (rows, width), centre `rows` on it in place, and return the centre.

        `noise` is the noise multiplier of one step; the noise of the mean follows from it and the setting `centre`.
        """
        from privaware.learners._linear.gradient import ROWS

        noise *= self._share(self.centre, self._check(schema, noise))
        noisy_sum = rng.gaussian(column_sums(rows, ROWS), noise=noise, sensitivity=1.0)
        if not isinstance(noisy_sum, np.ndarray):
            noisy_sum = noisy_sum.cpu().numpy()
        centre = Centre.of(noisy_sum, rows=schema.rows, deviation=noise)
        centre.move(rows, ROWS)
        return centre

    def _descend(
        self,
        gradient: LinearGradient | PartsGradient,
        schema: Schema,
        noise: float,
        rng: Rng,
        initial: np.ndarray | Tensor,
        steps: range | None = None,
    ) -> Tensor:
        """Return the average of the weights over the last iterates: a float64 tensor (outputs, width + 1).

        The last column holds the weights of the constant, which carry the bias. `gradient` has the rows, and `noise` is
        the noise multiplier of one step. `initial` is a tensor of initial weights in this shape, or an array (outputs,)
        of initial biases; the other weights then start at 0. `steps` is the range of the numbers of the steps to take,
        by default all steps. The average is over the last of these steps.
        """
        from privaware import descent

        update = descent.momentum(self.learning_rate(schema, noise), self.momentum)
        average = descent.tail(self.average)
        outputs, width = max(len(schema.classes), 1), gradient.rows.shape[1]
        if isinstance(initial, np.ndarray):
            weights = gradient.rows.new_zeros((outputs, width + 1)).double()
            weights[:, -1] = weights.new_tensor(initial / self._constant)
        else:
            weights = initial.clone()
        steps = range(self.steps) if steps is None else steps
        state, averages = update.initial_state(weights), average.initial_state(weights)
        report = paced(self.progress, self.steps, before=steps.start)
        for at, step in enumerate(steps):
            exact_sum = self._clipped_sum(gradient, weights, rng)
            noisy = rng.gaussian(exact_sum, noise=noise, sensitivity=self.norm)
            update.apply(weights, noisy / (self.rate * schema.rows), state, update.lr, 0.0)
            average.update(weights, averages, average.weight(at, len(steps)))
            report(step + 1)
        return averages["average"]

    def learning_rate(self, schema: Schema, noise: float) -> float:
        """Return `lr` if given, otherwise a learning rate that falls with the noise in the weights.

        `noise` is the noise multiplier of one step. The default is `times_noise / spread`, clipped to bounds that
        depend on the task. `spread` is the norm of the noise that all steps add to the weights at learning rate 1. With
        named `features` it is the noise in one weight only. `times_noise` is a constant for each task; with named
        `features` it also depends on the momentum, `centre`, `base` and the ratio of rows to noise.
        """
        if self.lr is not None:
            return self.lr
        named = self.features is not None
        width = 1 if named else max(len(schema.classes), 1) * self._width(schema)
        spread = noise * self.norm * math.sqrt(width * self.steps) / (self.rate * schema.rows)
        if not schema.classes:
            return float(
                np.clip(
                    (NAMED_REGRESSION_LR_TIMES_NOISE if named else REGRESSION_LR_TIMES_NOISE) / spread,
                    1e-4,
                    MAX_SQUARED_LOSS_LR,
                )
            )
        if not named:
            return float(np.clip(LR_TIMES_NOISE / spread, 0.01, 64.0))
        slower = (1 - self.momentum) / (1 - 0.9)  # the constants below hold for a momentum of 0.9
        times_noise = NAMED_LR_TIMES_NOISE * slower
        signal = self.norm * self.steps / spread  # rows / noise of all steps together
        if self.centre:
            times_noise *= float(np.clip(math.sqrt(signal / CENTRED_SIGNAL), 1.0, 2.0))
        careful = self.base > 0 or schema.has_whole_texts
        if careful:
            times_noise *= min(1.0, signal / CAREFUL_SIGNAL)
        return float(np.clip(times_noise / spread, 1e-4 if careful else 0.01, MAX_NAMED_LR * slower))

    def _chain(self, schema: Schema) -> tuple[Any, ...]:
        if self.features is None:
            return (feature_for(schema, self.bins),)
        return (*(transforms.build(described) for described in self.features), Bounded())

    def _width(self, schema: Schema) -> int:
        chain = self._chain(schema)
        return chain[0].width(schema) if len(chain) == 1 else math.prod(shape_after(chain, schema))

    @property
    def _constant(self) -> float:
        if self.constant is not None:
            return self.constant
        return 1.0 if self.features is None else 0.1

    @property
    def _sampler(self) -> Any:
        from privaware import descent

        return descent.FullBatch() if self.rate == 1 else descent.Poisson(rate=self.rate)

    def _clipped_sum(self, gradient: LinearGradient | PartsGradient, weights: Tensor, rng: Rng) -> Tensor:
        """Return the exact clipped gradient sum (outputs, width + 1) at `weights` over all rows or a Poisson sample."""
        import torch

        from privaware.learners._linear.parts import PartsGradient

        if isinstance(gradient, PartsGradient):
            return gradient.clipped_sum(weights, gradient.batch(self.rate, rng))
        if self.rate == 1:
            return gradient.clipped_sum(weights)
        batch = torch.from_numpy(self._sampler.draw(rng, len(gradient.rows))).to(self.device)
        return gradient.clipped_sum(weights, batch)

    def _gradient(self, data: Data, rows: Any) -> LinearGradient:
        import torch

        from privaware.learners._linear.gradient import LinearGradient

        schema = data.schema
        targets = data.y if schema.classes else np.nan_to_num(scaled(data.y, schema)).astype(np.float32)
        return LinearGradient(
            rows=torch.as_tensor(rows).to(self.device),
            targets=torch.from_numpy(targets).to(self.device),
            classes=len(schema.classes),
            constant=self._constant,
            norm=self.norm,
        )


MAX_SQUARED_LOSS_LR = 0.9
"""Largest learning rate for the squared loss.

A row with its constant has squared norm at most 2, so descent with momentum beta is stable below 1 + beta. This value
is about half of that limit.
"""

LR_TIMES_NOISE = 2.0
"""Default learning rate times `spread` (`Linear.learning_rate`), for classification on default features."""

REGRESSION_LR_TIMES_NOISE = 0.2
"""`LR_TIMES_NOISE` for regression, whose targets have absolute value at most 1, whereas logits reach several units."""

NAMED_LR_TIMES_NOISE = 0.142
"""`LR_TIMES_NOISE` for classification on named `features`; docs/results/prior.md compares other values.

Here `spread` is the noise in one weight. Noise is the same in all directions and every row has norm 1, so its effect on
an output depends neither on the width nor on the number of outputs.
"""

CHECK_SIGNAL = 150.0
"""The check of a regression takes at most the fraction `(CHECK_SIGNAL / signal)**2` of the budget.

Here `signal` is `rows * rate * sqrt(steps) / noise`. At twice `CHECK_SIGNAL` this is a quarter of the budget.
"""

MAX_OTHER_RELEASES = 0.9
"""Largest fraction of the budget for releases other than steps."""

CENTRED_SIGNAL = 4_000.0
"""Signal (rows divided by the noise multiplier of all steps together) above which centred rows take larger steps.

The default learning rate is multiplied by `sqrt(signal / CENTRED_SIGNAL)`, from 1 up to 2.
"""

CAREFUL_SIGNAL = 500.0
"""Signal (rows divided by the noise multiplier of all steps together) below which some models take smaller steps.

These are models of texts, and models with `base`. Their default learning rate is multiplied by
`signal / CAREFUL_SIGNAL`, so with too few rows they predict the most frequent class.
"""

NAMED_REGRESSION_LR_TIMES_NOISE = 0.045
"""`LR_TIMES_NOISE` for regression on named features."""

MAX_NAMED_LR = 300.0
"""Largest default learning rate for named features."""
