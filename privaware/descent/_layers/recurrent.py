"""The layer rules of recurrent layers, unrolled over time.

The projection of the input is added to the projection of the state, so the gradient with respect to the input
projection is also the gradient with respect to the state projection. In one of the three parts of a GRU, the reset gate
multiplies the state projection first, so this part of the gradient is multiplied by the reset gate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from privaware.descent._layers.dropout import dropped
from privaware.descent._layers.linear import by_example, multiply
from privaware.descent._per_example import Materialised, OuterProduct, PerExampleGradient
from privaware.descent._stack import Builder, Stack, check_batch_first
from privaware.errors import Refused

Cell = Callable[[Tensor, Tensor, tuple[Tensor, ...]], tuple[tuple[Tensor, ...], Any]]
"""A function (input projection, state projection, state) -> (next state, reset gate of a GRU or None)."""

PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def recurrent(stack: Stack, layer: Any) -> Callable[..., Any]:
    """Return the replacement of the forward function of a recurrent layer, which records its gradients.

    The layer is an LSTM, GRU or plain RNN of any depth, in one direction or both. Arguments and results are as in
    torch, also without `batch_first`.

    Raise `Refused` for an LSTM with `proj_size`. The forward function raises `Refused` for packed sequences, and for
    inputs that do not have three dimensions.
    """
    if getattr(layer, "proj_size", 0):
        raise Refused("an LSTM with proj_size has no rule; use proj_size=0 and a linear layer after it")
    suffixes = ("", "_reverse") if layer.bidirectional else ("",)
    runs = [[_direction(stack, layer, f"_l{at}{suffix}") for suffix in suffixes] for at in range(layer.num_layers)]
    is_lstm = isinstance(layer, nn.LSTM)

    def forward(inputs: Any, hx: Any = None) -> Any:
        if isinstance(inputs, PackedSequence) or inputs.ndim != 3:
            raise Refused(
                "recurrent layers take padded inputs of three dimensions (examples, time, columns); "
                "pad the sequences instead of packing them"
            )
        values = inputs if layer.batch_first else inputs.transpose(0, 1)
        initial = _initial_state(layer, values, hx, is_lstm)
        last: list[tuple[Tensor, ...]] = []
        for depth, directions in enumerate(runs):
            if depth:
                values = dropped(stack, values, layer.dropout, layer.training)
            outputs = []
            for direction in directions:
                output, state = direction(values, tuple(part[len(last)] for part in initial))
                outputs.append(output)
                last.append(state)
            values = torch.cat(outputs, 2) if len(outputs) > 1 else outputs[0]
        final = tuple(torch.stack([state[part] for state in last]) for part in range(1 + is_lstm))
        values = values if layer.batch_first else values.transpose(0, 1)
        return values, (final if is_lstm else final[0])

    return forward


def _initial_state(layer: Any, values: Tensor, hx: Any, is_lstm: bool) -> tuple[Tensor, ...]:
    if hx is not None:
        return tuple(hx) if is_lstm else (hx,)
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    zero = values.new_zeros(count, len(values), layer.hidden_size)
    return (zero, zero) if is_lstm else (zero,)


def single_bias_lstm(stack: Stack, layer: Any) -> Callable[..., Any]:
    """Return the replacement of the forward function of `privaware.models.LSTM`, which records its gradients.

    This LSTM has one layer, one direction and one bias vector. The replacement takes inputs (examples, time, columns)
    and returns the hidden states of all times (examples, time, units). The initial state is zero.
    """
    parameters = {"weight_ih": layer.weight_ih, "weight_hh": layer.weight_hh, "bias_ih": layer.bias}
    direction = _Direction(stack, parameters, _lstm)

    def forward(inputs: Tensor) -> Tensor:
        zero = inputs.new_zeros(len(inputs), layer.units)
        return direction(inputs, (zero, zero))[0]

    return forward


def _direction(stack: Stack, layer: Any, suffix: str) -> _Direction:
    parameters = {name: getattr(layer, name + suffix, None) for name in PARAMETERS}
    cell = _CELLS.get(type(layer), _plain(getattr(layer, "nonlinearity", "tanh")))
    return _Direction(stack, parameters, cell, suffix.endswith("_reverse"))


class _Direction:
    """A recurrent layer in one direction, unrolled over time.

    A call takes inputs (examples, time, columns) and an initial state, a tuple of tensors (examples, units). It returns
    the hidden states of all times (examples, time, units), in order of time, and the state after the last step.
    `parameters` has the layer's parameters by their names in `PARAMETERS`; a bias may be absent. `cell` computes one
    step. With `backwards` the steps run from the last time to the first, so the last step is at the first time.
    """

    def __init__(self, stack: Stack, parameters: dict[str, Tensor | None], cell: Cell, backwards: bool = False) -> None:
        self.stack, self.cell, self.backwards = stack, cell, backwards
        self.is_gru = cell is _gru
        stacked = {name: stack.parameter(parameters.get(name)) for name in PARAMETERS}
        self.names = {name: pair[0] for name, pair in stacked.items()}
        self.values = {name: pair[1] for name, pair in stacked.items()}

    def __call__(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        check_batch_first(inputs, self.stack.examples)
        projected = multiply(inputs, self._weight("weight_ih"), self.values["bias_ih"])
        states: list[Tensor] = []
        gates: list[Tensor] = []
        if any(name is not None for name in self.names.values()):
            projected = self.stack.record(projected, self._builder(inputs.detach(), states, gates))
        order = range(inputs.shape[1])
        outputs = []
        steps = projected.unbind(1)
        for at in reversed(order) if self.backwards else order:
            states.append(state[0].detach())
            recurrent_part = multiply(state[0], self._weight("weight_hh"), self.values["bias_hh"])
            state, gate = self.cell(steps[at], recurrent_part, state)
            if self.is_gru:
                gates.append(gate.detach())
            outputs.append(state[0])
        if self.backwards:
            outputs.reverse()
        return torch.stack(outputs, 1), state

    def _weight(self, name: str) -> Tensor:
        values = self.values[name]
        assert values is not None
        return values

    def _builder(self, inputs: Tensor, states: list[Tensor], gates: list[Tensor]) -> Builder:
        def in_time(steps: list[Tensor]) -> Tensor:
            return torch.stack(steps[::-1] if self.backwards else steps, 1).to(self.stack.dtype)

        def build(gradient: Tensor) -> list[tuple[str, PerExampleGradient]]:
            by_input = by_state = gradient.to(self.stack.dtype)
            if self.is_gru:
                reset, update, new = by_input.chunk(3, 2)
                by_state = torch.cat([reset, update, new * in_time(gates)], 2)
            by_input, by_state = (by_example(each, self.stack.examples) for each in (by_input, by_state))

            def outer(values: Tensor, gradients: Tensor) -> PerExampleGradient:
                return OuterProduct(by_example(values, self.stack.examples), gradients)

            builders: dict[str, Callable[[], PerExampleGradient]] = {
                "weight_ih": lambda: outer(inputs.to(by_input), by_input),
                "weight_hh": lambda: outer(in_time(states), by_state),
                "bias_ih": lambda: Materialised(by_input.sum(1)),
                "bias_hh": lambda: Materialised(by_state.sum(1)),
            }
            return [(name, builders[kind]()) for kind, name in self.names.items() if name is not None]

        return build


def _lstm(by_input: Tensor, by_state: Tensor, state: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], None]:
    into, forget, new, out = (by_input + by_state).chunk(4, 1)
    memory = forget.sigmoid() * state[1] + into.sigmoid() * new.tanh()
    return (out.sigmoid() * memory.tanh(), memory), None


def _gru(by_input: Tensor, by_state: Tensor, state: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
    parts = zip(by_input.chunk(3, 1), by_state.chunk(3, 1), strict=True)
    (reset_x, reset_h), (update_x, update_h), (new_x, new_h) = parts
    reset, update = (reset_x + reset_h).sigmoid(), (update_x + update_h).sigmoid()
    new = (new_x + reset * new_h).tanh()
    return (torch.lerp(new, state[0], update),), reset


def _plain(nonlinearity: str) -> Cell:
    act = torch.tanh if nonlinearity == "tanh" else torch.relu

    def cell(by_input: Tensor, by_state: Tensor, state: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], None]:
        return (act(by_input + by_state),), None

    return cell


_CELLS: dict[type[nn.Module], Cell] = {nn.LSTM: _lstm, nn.GRU: _gru}
