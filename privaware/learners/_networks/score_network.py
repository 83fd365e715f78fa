"""A score network that generates images, its training, and annealed Langevin dynamics.

A score network estimates the gradient of the log density of noisy images. The network is a RefineNet with instance norm
that keeps the means of channels. It has residual blocks (the second one halves the image, later ones are dilated), then
blocks that merge fine and coarse features. It returns the score times the noise level. With `classes` it also learns
one image for each class. The score is then the score of a normal distribution around the class image, plus the
network's correction.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from privaware.learners._networks.journal import Parts, ReleaseJournal
from privaware.learners._networks.plain_descent import Progress, paced

KEPT_EVERY = 60.0
"""Seconds between two states of a training that are saved in a journal."""

CLASS_IMAGE_VARIANCE = 0.1
"""Assumed variance of pixels around the image of their class."""


def noise_levels(largest: float, smallest: float, count: int) -> Tensor:
    """Return `count` standard deviations of noise, from `largest` to `smallest`, in a geometric sequence.

    >>> noise_levels(1.0, 0.01, 3).tolist()
    [1.0, 0.10000000149011612, 0.009999999776482582]
    """
    return torch.from_numpy(np.geomspace(largest, smallest, count).astype(np.float32))


class ScoreNetwork(nn.Module):
    """A network that estimates the score (the gradient of the log density) of noisy images, times the noise level.

    `shape` is (channels, height, width). There are `stages` residual stages, with `width` channels at full size and
    `2 * width` channels at coarser sizes. With 0 stages the score comes from one learnt image for each class alone.
    With 0 `classes` there are no such class images.
    """

    def __init__(self, shape: tuple[int, ...], width: int, stages: int, classes: int = 0) -> None:
        super().__init__()
        self.shape = tuple(shape)
        self.refine_net = _RefineNet(self.shape, width, stages) if stages else None
        self.class_image = nn.Linear(classes, int(np.prod(shape)), bias=False) if classes else None
        if self.class_image is not None:
            nn.init.constant_(self.class_image.weight, 0.5)

    def forward(self, noisy: Tensor, level: Tensor, one_hot: Tensor | None = None) -> Tensor:
        """Return the score times `level`, in the shape of `noisy` (images, channels, height, width).

        `level` (images,) is the standard deviation of the noise in each image. Class images are used only if `one_hot`
        (images, classes) is given.
        """
        scaled = torch.zeros_like(noisy) if self.refine_net is None else self.refine_net(2 * noisy - 1)
        if self.class_image is None or one_hot is None:
            return scaled
        deviation = level.view(-1, 1, 1, 1)
        image = self.class_image(one_hot).view(-1, *self.shape)
        return scaled + (image - noisy) * deviation / (deviation.square() + CLASS_IMAGE_VARIANCE)


class _RefineNet(nn.Module):
    """Residual stages, followed by blocks that merge their features from the coarsest stage to the finest.

    It maps images (images, channels, height, width) to the same shape.
    """

    def __init__(self, shape: tuple[int, ...], width: int, stages: int) -> None:
        super().__init__()
        widths = [width, *[2 * width] * (stages - 1)]
        self.begin = _conv(shape[0], width)
        self.residual = nn.ModuleList(
            _stage(at, widths[max(at - 1, 0)], widths[at], halve=at == 1 and min(shape[1:]) > 3) for at in range(stages)
        )
        merged = [widths[-1], *(widths[max(at - 1, 0)] for at in reversed(range(stages - 1)))]
        self.refine = nn.ModuleList(
            _Refine([widths[-1 - at], *merged[at - 1 : at]], merged[at], blocks=3 if at == stages - 1 else 1)
            for at in range(stages)
        )
        self.norm, self.end = _InstanceNormPlus(width), _conv(width, shape[0])

    def forward(self, values: Tensor) -> Tensor:
        values = self.begin(values)
        layers = []
        for stage in self.residual:
            values = stage(values)
            layers.append(values)
        coarse: list[Tensor] = []
        for block in self.refine:
            coarse = [block([layers.pop(), *coarse])]
        return self.end(functional.elu(self.norm(coarse[0])))  # type: ignore[no-any-return]


def _conv(inputs: int, outputs: int, *, dilation: int = 1, bias: bool = True) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=dilation, dilation=dilation, bias=bias)


class _InstanceNormPlus(nn.Module):
    """Instance norm plus the standardised means of the channels, with learned weights."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pixels, self.means = nn.GroupNorm(channels, channels), nn.GroupNorm(1, channels)
        for layer in (self.pixels, self.means):
            nn.init.normal_(layer.weight, 1.0, 0.02)

    def forward(self, values: Tensor) -> Tensor:
        return self.pixels(values) + self.means(values.mean((2, 3), keepdim=True))


class _Residual(nn.Module):
    """The sum of two stacked convolutions, each after a norm, and a shortcut.

    The shortcut is the identity if `plain`, and a convolution otherwise. If `halve`, the result is averaged over
    squares of 2 x 2 pixels.
    """

    def __init__(self, inputs: int, outputs: int, *, dilation: int, halve: bool = False, plain: bool = True) -> None:
        super().__init__()
        self.first, self.second = _conv(inputs, inputs, dilation=dilation), _conv(inputs, outputs, dilation=dilation)
        self.norms = nn.ModuleList(_InstanceNormPlus(inputs) for _ in range(2))
        pointwise = nn.Conv2d(inputs, outputs, 1) if dilation == 1 else _conv(inputs, outputs, dilation=dilation)
        self.shortcut = None if plain else pointwise
        self.halve = halve

    def forward(self, values: Tensor) -> Tensor:
        inner = self.first(functional.elu(self.norms[0](values)))
        inner = self.second(functional.elu(self.norms[1](inner)))
        both = inner + (values if self.shortcut is None else self.shortcut(values))
        return functional.avg_pool2d(both, 2) if self.halve else both


def _stage(at: int, inputs: int, outputs: int, halve: bool) -> nn.Sequential:
    dilation = 2 ** max(at - 1, 0)
    first = _Residual(inputs, outputs, dilation=dilation, halve=halve, plain=at == 0)
    return nn.Sequential(first, _Residual(outputs, outputs, dilation=dilation))


class _ConvUnits(nn.Module):
    """`blocks` residual units, each of two convolutions without bias, on `channels` channels."""

    def __init__(self, channels: int, blocks: int) -> None:
        super().__init__()
        self.first = nn.ModuleList(_conv(channels, channels, bias=False) for _ in range(blocks))
        self.second = nn.ModuleList(_conv(channels, channels, bias=False) for _ in range(blocks))

    def forward(self, values: Tensor) -> Tensor:
        for first, second in zip(self.first, self.second, strict=True):
            values = values + second(functional.elu(first(functional.elu(values))))
        return values


class _Refine(nn.Module):
    """A block that adds the features of a stage, and of a coarser stage if one exists, and then adds chained pooling.

    `inputs` holds the number of channels of each input, the finest first; coarser inputs are resized to the finest. The
    result has `outputs` channels.
    """

    def __init__(self, inputs: Sequence[int], outputs: int, blocks: int) -> None:
        super().__init__()
        self.adapt = nn.ModuleList(_ConvUnits(channels, 2) for channels in inputs)
        self.merge = nn.ModuleList(_conv(channels, outputs) for channels in inputs) if len(inputs) > 1 else None
        self.pools = nn.ModuleList(_conv(outputs, outputs, bias=False) for _ in range(2))
        self.last = _ConvUnits(outputs, blocks)

    def forward(self, features: list[Tensor]) -> Tensor:
        values = [adapt(one) for adapt, one in zip(self.adapt, features, strict=True)]
        if self.merge is not None:
            size = values[0].shape[2:]
            resized = [
                functional.interpolate(conv(one), size=size, mode="bilinear", align_corners=True)
                for conv, one in zip(self.merge, values, strict=True)
            ]
            values = [sum(resized[1:], start=resized[0])]
        total = path = functional.elu(values[0])
        for conv in self.pools:
            path = conv(functional.max_pool2d(path, 5, 1, 2))
            total = total + path
        return self.last(total)


class Denoising(nn.Module):
    """A module that returns the denoising residuals of the score `network`: `level * score + noise`.

    For each image, `draws` pairs of a noise level and standard normal noise are used. A call with images and one-hot
    classes returns (images, draws * pixels). All images share the same levels and noise, which are buffers that `draw`
    replaces before each step. So the residuals of an example depend neither on other examples nor on its position in a
    batch.
    """

    def __init__(self, network: ScoreNetwork, draws: int) -> None:
        super().__init__()
        self.network = network
        self.level: Tensor
        self.noise: Tensor
        self.register_buffer("level", torch.ones(draws))
        self.register_buffer("noise", torch.zeros(draws, *network.shape))

    def draw(self, levels: Tensor, generator: np.random.Generator) -> None:
        """Replace the levels by random entries of `levels`, and the noise by new noise, both from `generator`."""
        chosen = torch.from_numpy(generator.integers(len(levels), size=len(self.level)))
        noise = generator.standard_normal(tuple(self.noise.shape), dtype=np.float32)
        self.level.copy_(levels[chosen.to(levels.device)])
        self.noise.copy_(torch.from_numpy(noise))

    def forward(self, images: Tensor, one_hot: Tensor) -> Tensor:
        draws = len(self.level)
        level, noise = self.level.repeat(len(images)), self.noise.repeat(len(images), 1, 1, 1)
        noisy = images.repeat_interleave(draws, 0) + level.view(-1, 1, 1, 1) * noise
        return (self.network(noisy, level, one_hot.repeat_interleave(draws, 0)) + noise).reshape(len(images), -1)


def residual_loss(residuals: Tensor, targets: Tensor) -> Tensor:
    """Return, for each example, half the mean of its squared residuals over all draws and pixels; ignore `targets`.

    `residuals` come from `Denoising` and are already multiplied by the noise level. So this is the denoising loss of
    the score, with the squared noise level as the weight of a draw.
    """
    return residuals.square().mean(1) / 2


@dataclass(frozen=True, kw_only=True)
class ScoreTraining:
    """Training by `steps` steps of Adam on gradients that the caller provides.

    The result is the exponential moving average of the weights.

    The decay of the average at step s, counted from 1, is `min(ema, s / (s + 10))`. `progress` is called after each
    step (`Progress`).
    """

    steps: int
    lr: float
    ema: float
    progress: Progress | None = None

    def run(
        self, network: nn.Module, gradients: Callable[[], Sequence[Tensor]], journal: ReleaseJournal | None = None
    ) -> nn.Module:
        """Train `network` in place, and return another network, in evaluation mode, with the average of its weights.

        `gradients()` returns the gradients of the current parameters, in the order of `network.parameters()`. If a
        `journal` is given, it stores the state every `KEPT_EVERY` seconds, and training resumes from the last stored
        state.
        """
        parameters = list(network.parameters())
        optimiser = torch.optim.Adam(parameters, lr=self.lr)
        average = copy.deepcopy(network).requires_grad_(False)
        known = None if journal is None else journal.load("score")
        before = 0 if known is None else _restore(known, parameters, optimiser, average)
        kept, report = time.monotonic(), paced(self.progress, self.steps, before=before)
        for step in range(before + 1, self.steps + 1):
            for parameter, gradient in zip(parameters, gradients(), strict=True):
                parameter.grad = gradient
            optimiser.step()
            decay = min(self.ema, step / (step + 10))
            with torch.no_grad():
                for mean, parameter in zip(average.parameters(), parameters, strict=True):
                    mean.lerp_(parameter, 1 - decay)
            report(step)
            if journal is not None and time.monotonic() - kept >= KEPT_EVERY:
                kept = time.monotonic()
                journal.save("score", _state(step, parameters, optimiser, average))
        return average.eval()


def _state(step: int, parameters: Sequence[Tensor], optimiser: torch.optim.Adam, average: nn.Module) -> Parts:
    """Return the state of a training after `step` steps, as arrays by name, from which the next step can start.

    The arrays are `step`, the `parameters`, the averaged weights of the network `average`, and both moments of
    `optimiser`.
    """
    moments = [optimiser.state[parameter] for parameter in parameters]
    groups: dict[str, Sequence[Tensor]] = {
        "weight": parameters,
        "average": list(average.parameters()),
        "first": [moment["exp_avg"] for moment in moments],
        "second": [moment["exp_avg_sq"] for moment in moments],
    }
    arrays = {f"{name}{at}": each for name, group in groups.items() for at, each in enumerate(group)}
    return {"step": np.array(step), **{name: each.detach().cpu().numpy() for name, each in arrays.items()}}


def _restore(known: Parts, parameters: Sequence[Tensor], optimiser: torch.optim.Adam, average: nn.Module) -> int:
    """Set parameters, optimiser and average, in place, to the state `known` of `_state`; return its number of steps."""
    with torch.no_grad():
        for at, (parameter, mean) in enumerate(zip(parameters, average.parameters(), strict=True)):
            stored = {
                name: torch.from_numpy(known[f"{name}{at}"]).to(parameter)
                for name in ("weight", "average", "first", "second")
            }
            parameter.copy_(stored["weight"])
            mean.copy_(stored["average"])
            moments = {"exp_avg": stored["first"], "exp_avg_sq": stored["second"]}
            optimiser.state[parameter] = {"step": torch.tensor(float(known["step"])), **moments}
    return int(known["step"])


@dataclass(frozen=True, kw_only=True)
class Langevin:
    """Annealed Langevin dynamics: `steps` steps at each of `levels`, then one denoising step at the last level.

    The step size at a level is `rate * (level / levels[-1]) ** 2`. `at_once` images are processed at a time.
    """

    levels: Tensor
    steps: int
    rate: float
    at_once: int = 512

    def run(
        self,
        network: Callable[..., Tensor],
        initial: np.ndarray,
        one_hot: Any,
        generator: np.random.Generator,
        report: Callable[[int], None] | None = None,
    ) -> np.ndarray:
        """Run a chain from each image of `initial`, and return the last image of each chain.

        In the last images, pixels are clipped to [0, 1], and pixels that are not finite become 0.

        Parameters
        ----------
        network : callable
            Returns `level * score` for images, the level of each image, and the rows of `one_hot` or None.
        initial : ndarray
            The images at which the chains start.
        one_hot : ndarray or None
            The class of each image, one-hot; None for a network without classes.
        generator : Generator
            Seeds the noise of the chains.
        report : callable, optional
            Called after each `at_once` images with the number of images finished so far.

        Returns
        -------
        ndarray
            The sampled images, in the order of `initial`.
        """
        device = self.levels.device
        parts = []
        for start in range(0, len(initial), self.at_once):
            part = slice(start, start + self.at_once)
            images = torch.from_numpy(initial[part]).to(device)
            hot = None if one_hot is None else torch.from_numpy(one_hot[part]).to(device)
            parts.append(self._sampled(network, images, hot, generator).cpu().numpy())
            if report is not None:
                report(min(start + self.at_once, len(initial)))
        return np.concatenate(parts) if parts else initial

    @torch.no_grad()
    def _sampled(
        self, network: Callable[..., Tensor], images: Tensor, hot: Tensor | None, generator: np.random.Generator
    ) -> Tensor:
        draws = torch.Generator(images.device).manual_seed(int(generator.integers(2**63)))
        for level in self.levels:
            size = self.rate * (level / self.levels[-1]).square()
            deviation = level.expand(len(images))
            for _ in range(self.steps):
                score = network(images, deviation, hot) / level
                noise = torch.randn(images.shape, generator=draws, device=images.device)
                images = images + size * score + (2 * size).sqrt() * noise
        last = self.levels[-1]
        images = images + last * network(images, last.expand(len(images)), hot)  # one denoising step: level^2 * score
        return images.nan_to_num_(0.0, 0.0, 0.0).clamp_(0, 1)
