"""The rules of recurrent layers, unrolled over time.

All gradients follow from the one by the input's projection, because it is added to the recurrent projection; in a GRU
the reset gate stands between the two in one of three parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from privaware.descent._shares import Outer, Rows
from privaware.errors import Refused

if TYPE_CHECKING:
    from privaware.descent._stack import Stack

__all__ = ["one_bias", "recurrent"]

Cell = Callable[[Tensor, Tensor, tuple[Tensor, ...]], tuple[tuple[Tensor, ...], Any]]


def recurrent(stack: Stack, layer: Any) -> Callable[..., Any]:
    """LSTM, GRU and plain RNN: any depth, both directions, one or two bias vectors."""
    if getattr(layer, "proj_size", 0):
        raise Refused("an LSTM with proj_size has no rule; use proj_size=0 and a linear layer after it")
    ends = ("", "_reverse") if layer.bidirectional else ("",)
    runs = [[_direction(stack, layer, f"_l{at}{end}") for end in ends] for at in range(layer.num_layers)]
    two = isinstance(layer, nn.LSTM)

    def forward(inputs: Any, hx: Any = None) -> Any:
        if isinstance(inputs, PackedSequence) or inputs.ndim != 3:
            raise Refused(
                "recurrent layers take padded inputs of three dimensions (rows, time, columns); "
                "pad the sequences instead of packing them"
            )
        values = inputs if layer.batch_first else inputs.transpose(0, 1)
        starts = _starts(layer, values, hx, two)
        last: list[tuple[Tensor, ...]] = []
        for depth, directions in enumerate(runs):
            if depth and layer.dropout:
                values = F.dropout(values, layer.dropout, layer.training)
            outputs = []
            for direction in directions:
                made, state = direction(values, tuple(part[len(last)] for part in starts))
                outputs.append(made)
                last.append(state)
            values = torch.cat(outputs, 2) if len(outputs) > 1 else outputs[0]
        ended = tuple(torch.stack([state[part] for state in last]) for part in range(1 + two))
        values = values if layer.batch_first else values.transpose(0, 1)
        return values, (ended if two else ended[0])

    return forward


def _starts(layer: Any, values: Tensor, hx: Any, two: bool) -> tuple[Tensor, ...]:
    if hx is not None:
        return tuple(hx) if two else (hx,)
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    zero = values.new_zeros(count, len(values), layer.hidden_size)
    return (zero, zero) if two else (zero,)


def one_bias(stack: Stack, layer: Any) -> Callable[..., Any]:
    """The LSTM of `privaware.models`: one layer, one direction, one bias vector, all hidden states returned."""
    given = {"weight_ih": layer.weight_ih, "weight_hh": layer.weight_hh, "bias_ih": layer.bias}
    direction = _Direction(stack, given, _lstm)

    def forward(inputs: Tensor) -> Tensor:
        zero = inputs.new_zeros(len(inputs), layer.units)
        return direction(inputs, (zero, zero))[0]

    return forward


def _direction(stack: Stack, layer: Any, end: str) -> _Direction:
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    given = {name: getattr(layer, name + end, None) for name in names}
    cell = _CELLS.get(type(layer), _plain(getattr(layer, "nonlinearity", "tanh")))
    return _Direction(stack, given, cell, end.endswith("_reverse"))


class _Direction:
    """One layer in one direction."""

    def __init__(self, stack: Stack, given: dict[str, Tensor | None], cell: Cell, backwards: bool = False) -> None:
        self.stack, self.cell, self.backwards = stack, cell, backwards
        self.gru = cell is _gru
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        found = {name: stack.of(given.get(name)) for name in names}
        self.names = {name: pair[0] for name, pair in found.items()}
        self.values = {name: pair[1] for name, pair in found.items()}

    def __call__(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        from privaware.descent._layers import multiply, rows_first

        rows_first(inputs, self.stack.rows)
        projected = multiply(inputs, _given(self.values["weight_ih"]), self.values["bias_ih"])
        before: list[Tensor] = []
        gates: list[Tensor] = []
        if any(name is not None for name in self.names.values()):
            projected = self.stack.record(projected, self._make(inputs.detach(), before, gates))
        order = range(inputs.shape[1])
        outputs = []
        steps = projected.unbind(1)
        for at in reversed(order) if self.backwards else order:
            before.append(state[0].detach())
            again = multiply(state[0], _given(self.values["weight_hh"]), self.values["bias_hh"])
            state, gate = self.cell(steps[at], again, state)
            if self.gru:
                gates.append(gate.detach())
            outputs.append(state[0])
        if self.backwards:
            outputs.reverse()
        return torch.stack(outputs, 1), state

    def _make(self, inputs: Tensor, before: list[Tensor], gates: list[Tensor]) -> Any:
        def in_time(steps: list[Tensor]) -> Tensor:
            return torch.stack(steps[::-1] if self.backwards else steps, 1).to(self.stack.dtype)

        def make(gradient: Tensor) -> list[tuple[str, Any]]:
            fresh = gradient.to(self.stack.dtype)
            again = fresh
            if self.gru:
                reset, update, new = fresh.chunk(3, 2)
                again = torch.cat([reset, update, new * in_time(gates)], 2)
            rows = self.stack.rows
            made = {
                "weight_ih": lambda: Outer(*_split(inputs.to(fresh), fresh, rows)),
                "weight_hh": lambda: Outer(*_split(in_time(before), again, rows)),
                "bias_ih": lambda: Rows(_summed(fresh, rows)),
                "bias_hh": lambda: Rows(_summed(again, rows)),
            }
            return [(name, made[kind]()) for kind, name in self.names.items() if name is not None]

        return make


def _split(inputs: Tensor, gradients: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    return inputs.reshape(rows, -1, inputs.shape[2]), gradients.reshape(rows, -1, gradients.shape[2])


def _summed(gradients: Tensor, rows: int) -> Tensor:
    return gradients.reshape(rows, -1, gradients.shape[2]).sum(1)


def _given(values: Tensor | None) -> Tensor:
    assert values is not None
    return values


def _lstm(fresh: Tensor, again: Tensor, state: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], None]:
    into, forget, new, out = (fresh + again).chunk(4, 1)
    memory = forget.sigmoid() * state[1] + into.sigmoid() * new.tanh()
    return (out.sigmoid() * memory.tanh(), memory), None


def _gru(fresh: Tensor, again: Tensor, state: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
    parts = zip(fresh.chunk(3, 1), again.chunk(3, 1), strict=True)
    (reset_x, reset_h), (update_x, update_h), (new_x, new_h) = parts
    reset, update = (reset_x + reset_h).sigmoid(), (update_x + update_h).sigmoid()
    new = (new_x + reset * new_h).tanh()
    return (torch.lerp(new, state[0], update),), reset


def _plain(nonlinearity: str) -> Cell:
    act = torch.tanh if nonlinearity == "tanh" else torch.relu

    def cell(fresh: Tensor, again: Tensor, state: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], None]:
        return (act(fresh + again),), None

    return cell


_CELLS: dict[type[nn.Module], Cell] = {nn.LSTM: _lstm, nn.GRU: _gru}
