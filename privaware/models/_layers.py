"""The modules that PyTorch lacks; everything else in this folder consists of PyTorch's own layers.

Modules with parameters (`LSTM`, `StandardisedConv2d`, `Constant`) have no sub-modules, so a training engine can treat
each as one layer. No layer in this module mixes rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional


class Tempered(nn.Module):
    """The tempered sigmoid of Papernot et al.: scale / (1 + exp(-temperature * x)) - offset; (2, 2, 1) is tanh."""

    def __init__(self, scale: float, temperature: float, offset: float) -> None:
        super().__init__()
        self.scale, self.temperature, self.offset = scale, temperature, offset

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * torch.sigmoid(self.temperature * x) - self.offset


_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "selu": nn.SELU,
    "tanh": nn.Tanh,
    "hardtanh": nn.Hardtanh,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
}


def activation(name: str, tempered: tuple[float, float, float]) -> nn.Module:
    """Return a new activation layer; `name` is one of `ACTIVATIONS`.

    `tempered` (scale, temperature, offset) is used for the name "tempered" only.
    """
    return Tempered(*tempered) if name == "tempered" else _ACTIVATIONS[name]()


def pool(kind: str, size: int, stride: int, padding: int = 0) -> nn.Module:
    """Return a new pooling layer: a max pool if `kind` is "max", else an average pool.

    Windows have `size` x `size` points and begin every `stride` points; `padding` is the width of the padded border. An
    average counts padded points as zeros.
    """
    layer = nn.MaxPool2d if kind == "max" else nn.AvgPool2d
    return layer(size, stride, padding)


def global_pool(kind: str) -> nn.Module:
    """Return a new layer that pools each channel to one number: its maximum if `kind` is "max", else its mean.

    The layer returns (rows, channels, 1, 1).
    """
    return nn.AdaptiveMaxPool2d(1) if kind == "max" else nn.AdaptiveAvgPool2d(1)


def group_norm(groups: int, channels: int) -> nn.Module:
    """Return a new group norm with weights; its number of groups is the greatest common divisor of the arguments."""
    return nn.GroupNorm(math.gcd(groups, channels), channels)


def dense_layers(
    width: int, hidden: Iterable[tuple[int, nn.Module]], outputs: int, *, dropout: float, after_each: bool = False
) -> list[tuple[str, nn.Module]]:
    """Return (name, layer) for linear layers from `width` inputs to `outputs` outputs.

    `hidden` has (units, activation layer) for each hidden layer. Unless `dropout`, a rate, is 0, a dropout layer
    follows every hidden layer if `after_each`, or else stands once, before the output layer. Names are "dense1",
    "dense1_activation", "dropout1" and so on, "dropout" for a single dropout layer, and "output".
    """
    layers: list[tuple[str, nn.Module]] = []
    for at, (units, act) in enumerate(hidden, start=1):
        layers += [(f"dense{at}", nn.Linear(width, units)), (f"dense{at}_activation", act)]
        if dropout and after_each:
            layers.append((f"dropout{at}", nn.Dropout(dropout)))
        width = units
    if dropout and not after_each:
        layers.append(("dropout", nn.Dropout(dropout)))
    return [*layers, ("output", nn.Linear(width, outputs))]


def he_normal(module: nn.Module, gain: float = math.sqrt(2)) -> None:
    """Draw the weights of every `nn.Conv2d` in `module` from a normal distribution, and set its bias to zero, in place.

    The standard deviation is gain / sqrt(output channels * kernel area). The numbers come from torch's global
    generator.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            outgoing = layer.out_channels * math.prod(layer.kernel_size)
            nn.init.normal_(layer.weight, std=gain / math.sqrt(outgoing))
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class LastStep(nn.Module):
    """A layer that takes the last step of a sequence (rows, steps, width) and returns (rows, width)."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, -1]


class PadChannels(nn.Module):
    """A layer that appends `extra` channels of zeros to images (rows, channels, height, width)."""

    def __init__(self, extra: int) -> None:
        super().__init__()
        self.extra = extra

    def forward(self, x: Tensor) -> Tensor:
        return functional.pad(x, (0, 0, 0, 0, 0, self.extra))


class Residual(nn.Module):
    """`after(body(first(x)) + shortcut(x))`; with `preactivated` the shortcut takes first(x) instead of x.

    `first`, `shortcut` or `after` is the identity if it is None.
    """

    def __init__(
        self,
        body: nn.Module,
        *,
        shortcut: nn.Module | None = None,
        first: nn.Module | None = None,
        after: nn.Module | None = None,
        preactivated: bool = False,
    ) -> None:
        super().__init__()
        self.first = nn.Identity() if first is None else first
        self.body = body
        self.shortcut = nn.Identity() if shortcut is None else shortcut
        self.after = nn.Identity() if after is None else after
        self.preactivated = preactivated

    def forward(self, x: Tensor) -> Tensor:
        first = self.first(x)
        return self.after(self.body(first) + self.shortcut(first if self.preactivated else x))


class SqueezeExcitation(nn.Module):
    """A layer that scales each channel by a gate in (0, 1), computed from the means of all channels of the same row.

    `channels` means are mapped to `squeezed` units, on which `act` acts, and from these to one gate for each channel.
    """

    def __init__(self, channels: int, squeezed: int, act: nn.Module) -> None:
        super().__init__()
        squeeze, excite = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), squeeze, act, excite, nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


class Branches(nn.Module):
    """Several modules on the same input; their outputs are concatenated along the channels, which are dimension 1."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


class LSTM(nn.Module):
    """Long short-term memory with one bias vector, from (rows, steps, inputs) to hidden states (rows, steps, units).

    Parameters: `weight_ih` (4 * units, inputs), `weight_hh` (4 * units, units) and `bias` (4 * units), in the order
    input, forget, cell, output gate. PyTorch's own layer has a second bias of 4 * units numbers, which has no effect on
    what the layer can compute.

    Per-example gradients: let h[t] be the hidden state after step t (zero before the first step), z[t] = weight_ih x[t]
    + weight_hh h[t-1] + bias the gates before their activation, and dz[t] the gradient of the loss with respect to
    z[t]. The gradients of `weight_ih`, `weight_hh` and `bias` are the sums over steps of dz[t] x[t]^T, of dz[t]
    h[t-1]^T and of dz[t]. The output has h[t] of every step. The optional argument `probe` of `forward` is a tensor
    (rows, steps, 4 * units) of zeros that is added to z, so its gradient is dz. So a rule for per-example gradients
    needs only the input x, the output h and the gradient of `probe`.
    """

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.inputs, self.units = inputs, units
        self.weight_ih = nn.Parameter(torch.empty(4 * units, inputs))
        self.weight_hh = nn.Parameter(torch.empty(4 * units, units))
        self.bias = nn.Parameter(torch.empty(4 * units))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(units**-0.5), units**-0.5)

    def forward(self, x: Tensor, probe: Tensor | None = None) -> Tensor:
        from_inputs = functional.linear(x, self.weight_ih, self.bias)
        if probe is not None:
            from_inputs = from_inputs + probe
        hidden = cell = x.new_zeros(x.shape[0], self.units)
        states = []
        for step in from_inputs.unbind(1):
            gates = step + functional.linear(hidden, self.weight_hh)
            input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=-1)
            cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
            hidden = torch.sigmoid(output_gate) * torch.tanh(cell)
            states.append(hidden)
        return torch.stack(states, dim=1)

    def extra_repr(self) -> str:
        return f"{self.inputs}, {self.units}"


class StandardisedConv2d(nn.Module):
    """A convolution with weight standardisation: every filter has mean 0, and a norm just below 1.

    It has `filters` filters of `size` x `size` points on `channels` channels, and a bias. `padding` is the number of
    zeros on each side. It is not a subclass of `nn.Conv2d`, so that a training engine does not apply its rule for the
    per-example gradients of `nn.Conv2d`: here the gradient of `weight` passes through the standardisation too.
    """

    def __init__(self, channels: int, filters: int, size: int, stride: int = 1, padding: int = 0) -> None:
        super().__init__()
        self.stride, self.padding = stride, padding
        fan_in = channels * size * size
        self.weight = nn.Parameter(torch.empty(filters, channels, size, size))
        self.bias = nn.Parameter(torch.empty(filters))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(fan_in**-0.5), fan_in**-0.5)

    def standardised(self) -> Tensor:
        """Return the filters (filters, channels, size, size), centred to mean 0 and scaled to a norm just below 1."""
        centred = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        fan_in = self.weight[0].numel()
        variance = centred.square().sum((1, 2, 3), keepdim=True) / max(fan_in - 1, 1)
        return centred / torch.sqrt(variance * fan_in + 1e-4)

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.standardised(), self.bias, self.stride, self.padding)

    def extra_repr(self) -> str:
        return f"weight={tuple(self.weight.shape)}, stride={self.stride}, padding={self.padding}"


class Constant(nn.Module):
    """A layer that returns the same learned `value` (a vector of `outputs` numbers, initially zero) for every row."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return self.value.expand(x.shape[0], -1)


class Trees(nn.Module):
    """An additive model of columns with optional trees and random Fourier features.

    An input row has an ordinal code for each entry of `levels` (the number of codes of a column), then `numbers` real
    numbers. Codes outside the range are moved to its ends. The output is the sum of a bias, a score for the code of
    each column, a slope times each number, one leaf of each tree, and an amplitude times each random Fourier feature.
    `shape` is (number of trees, depth of a tree, number of random Fourier features).

    Buffer `columns` has the column of each split of a tree. Buffer `right` says, for each split and each code of its
    column, whether a row goes right. The splits of a tree give the binary digits of a leaf's number, the highest digit
    first: 1 if the row goes right, else 0. A random Fourier feature is the cosine of 2 pi times the sum of a constant,
    a frequency for the code of each column, and a frequency times each number. Stored models call the frequencies
    `turns` and the amplitudes `swings`.

    With `bent` the output is corrected for a skewed target (`_skew_corrected`). Otherwise, with `clipped`, the output
    is turned into logits of two classes (`_unclipped`).
    """

    SOME = 64

    def __init__(
        self,
        levels: tuple[int, ...],
        numbers: int,
        outputs: int,
        shape: tuple[int, int, int],
        clipped: bool = False,
        bent: tuple[float, ...] = (),
    ) -> None:
        super().__init__()
        self.levels, self.clipped, self.bent, (trees, depth, self.waves) = levels, clipped, bent, shape
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.scores = nn.Parameter(torch.zeros(sum(levels), outputs))
        self.slopes = nn.Parameter(torch.zeros(numbers, outputs))
        self.leaves = nn.Parameter(torch.zeros(trees, 2**depth, outputs))
        self.register_buffer("columns", torch.zeros(trees, depth, dtype=torch.int64))
        self.register_buffer("right", torch.zeros(trees, depth, max(levels, default=1), dtype=torch.bool))
        if self.waves:
            self.swings = nn.Parameter(torch.zeros(self.waves, outputs))
            self.register_buffer("turns", torch.zeros(1 + sum(levels) + numbers, self.waves))
        self.columns: Tensor
        self.right: Tensor
        self.turns: Tensor

    def forward(self, x: Tensor) -> Tensor:
        sizes = torch.tensor(self.levels, device=x.device)
        codes = torch.minimum(x[:, : len(sizes)].long().clamp_min(0), sizes - 1)
        levels, numbers = codes + sizes.cumsum(0) - sizes, x[:, len(sizes) :].to(self.bias.dtype)
        outputs = self.bias + self.scores[levels].sum(1) + numbers @ self.slopes
        if self.waves:
            angles = self.turns[0] + numbers @ self.turns[1 + len(self.scores) :]
            for column in levels.T:
                angles = angles + self.turns[1 + column]
            outputs = outputs + torch.cos(2 * math.pi * angles) @ self.swings
        for start in range(0, len(self.leaves), self.SOME):
            columns, right = self.columns[start : start + self.SOME], self.right[start : start + self.SOME]
            trees, depth = columns.shape
            tree, split = torch.arange(trees, device=x.device), torch.arange(depth, device=x.device)
            goes_right = right[tree[:, None], split, codes[:, columns]]
            leaf = (goes_right * 2 ** split.flip(0)).sum(2)
            outputs = outputs + self.leaves[start : start + self.SOME][tree, leaf].sum(1)
        if self.bent:
            return _skew_corrected(outputs, *self.bent)
        return _unclipped(outputs) if self.clipped else outputs


def _skew_corrected(outputs: Tensor, centre: float, spread: float, strength: float, shift: float) -> Tensor:
    """Return `centre + shift + spread / strength * (exp(strength * z) - 1)`, the skew correction of a regression.

    Here `z` is `(outputs - centre) / spread`, clipped to [-8, 8]; `spread` and `strength` are above 0. `SkewCorrection`
    in `learners/_boosting/regression.py` is its counterpart in training.
    """
    away = ((outputs - centre) / spread).clamp(-8.0, 8.0)
    return centre + shift + spread / strength * torch.expm1(strength * away)


def _unclipped(outputs: Tensor) -> Tensor:
    """Return logits (rows, 2) from two scores a row that were learned with gradients clipped to 1/2.

    With `d = outputs[:, 1] - outputs[:, 0]` and `z = sign(d) * max(0, log(1 + exp(|d|)) - log(2))`, the logits are
    `-z / 2` and `z / 2`.
    """
    differences = outputs[:, 1] - outputs[:, 0]
    logits = differences.sign() * (nn.functional.softplus(differences.abs()) - math.log(2)).clamp_min(0)
    return torch.stack([-logits / 2, logits / 2], 1)
