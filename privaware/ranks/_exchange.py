"""Exchange values, tensors and rows between the processes of one run."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.ranks._ending import RankLost, lost_sentence

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 2**27
"""Largest number of bytes of rows that are sent at once."""

Shape = tuple[tuple[int, ...], Any]
"""The shape and the dtype of a tensor."""


@dataclass(eq=False)
class Exchange:
    """What the process with number `rank` of `size` sends to the other processes of its run, and receives from them.

    Rank 0 leads. With size 1 nothing is sent. `local` is the number of this process on its machine, from 0. `place` is
    the address at which ranks meet, as `torch.distributed` takes it. Once connected, `_groups` has torch's process
    groups by name: "idle" (waits for jobs), "cpu", and "cuda" if each rank has a GPU of its own.
    """

    rank: int
    size: int
    local: int = 0
    place: str = "env://"
    _groups: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def shared(self, value: Any) -> Any:
        """Return the `value` of rank 0 on every rank; the `value` of any other rank is ignored.

        Every rank has to call this. A rank waits for rank 0 up to `IDLE_TIMEOUT`.
        """
        if self.size == 1:
            return value
        import cloudpickle
        import torch

        content = torch.frombuffer(bytearray(cloudpickle.dumps(value)), dtype=torch.uint8) if self.leads else None
        length = torch.tensor([0 if content is None else len(content)])
        self._broadcast(length, "idle")
        if content is None:
            content = torch.empty(int(length), dtype=torch.uint8)
        self._broadcast(content, "idle")
        return value if self.leads else pickle.loads(content.numpy().tobytes())

    def gathered(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in the order of ranks, on every rank; every rank has to call this."""
        if self.size == 1:
            return [value]
        import torch.distributed as dist

        values: list[Any] = [None] * self.size
        with self._connected():
            dist.all_gather_object(values, value, group=self._groups["cpu"])
        return values

    def send_parts(self, tensors: Sequence[Tensor], bounds: Sequence[int]) -> None:
        """Send to each other rank r the rows `bounds[r]` to `bounds[r + 1] - 1` of each of `tensors`.

        `bounds` has one entry more than there are ranks. Only rank 0 calls this. Rank r calls `receive_part` with the
        shapes of its rows.
        """
        for rank in range(1, self.size):
            for tensor in tensors:
                self._send([tensor[bounds[rank] : bounds[rank + 1]].detach().cpu().contiguous()], to=rank)

    def receive_part(self, shapes: Sequence[Shape]) -> list[Tensor]:
        """Return the tensors that rank 0 sends to this rank alone by `send_parts`, as new tensors on the CPU.

        `shapes` has a pair of shape and dtype for each tensor.
        """
        return self._received(shapes, 0)

    def exchanged(self, rows: Tensor, sent: Sequence[int], received: Sequence[int]) -> Tensor:
        """Send the first `sent[0]` of `rows` to rank 0, the next `sent[1]` to rank 1 and so on; return received rows.

        Rows are along the first axis. `received[r]` is the number of rows that rank r sends to this rank. The result is
        a new tensor with the received rows in the order of ranks, on the device of `rows`. Every rank has to call this,
        and sends rows to itself too. With a single rank, `rows` itself is returned.
        """
        if self.size == 1:
            return rows
        import torch
        import torch.distributed as dist

        group = self._groups.get("cuda", self._groups["cpu"]) if rows.is_cuda else self._groups["cpu"]
        place = rows.device if group is not self._groups["cpu"] else torch.device("cpu")
        width = rows.element_size() * math.prod(rows.shape[1:])
        flat = _bytes(rows.contiguous()).to(place).view(-1, width)
        here = torch.empty(sum(received), width, dtype=torch.uint8, device=place)
        with self._connected():
            dist.all_to_all_single(here, flat, list(received), list(sent), group=group)
        return here.view(-1).view(rows.dtype).view(-1, *rows.shape[1:]).to(rows.device)

    def shared_rows(self, rows: Any) -> Any:
        """Return the NumPy array `rows` of rank 0 on every rank; other ranks pass None.

        Rank 0 gets `rows` itself, any other rank a new array. An array whose entries are not numbers or booleans is
        pickled. Every rank has to call this.
        """
        import torch

        plain = self.shared(None if rows is None else rows.dtype.kind in "biuf")
        if not plain:
            return self.shared(rows)
        tensor = None if rows is None else torch.from_numpy(np.ascontiguousarray(rows))
        shape = self.shared(None if tensor is None else _shape(tensor))
        if tensor is None:
            tensor = torch.empty(shape[0], dtype=shape[1])
        for piece in _pieces([tensor]):
            self._broadcast(piece, "cpu")
        return rows if self.leads else tensor.numpy()

    def collected(self, tensors: Sequence[Tensor]) -> list[list[Tensor]]:
        """Return the tensors of every rank, in the order of ranks, on rank 0; on all other ranks an empty list.

        The tensors are on the CPU. But with a single rank, its own `tensors` are returned on their device. Every rank
        has to call this.
        """
        if self.size == 1:
            return [list(tensors)]
        own = [tensor.detach().cpu().contiguous() for tensor in tensors]
        shapes = self.gathered([_shape(tensor) for tensor in own])
        if not self.leads:
            self._send(own, to=0)
            return []
        return [own, *(self._received(shapes[rank], rank) for rank in range(1, self.size))]

    def add_up(self, sums: Tensor) -> None:
        """Replace `sums` of rank 0, in place, by their total over all ranks.

        Every rank has to call this, with a tensor of the same shape and type. On other ranks than 0 the content of
        `sums` is undefined afterwards. In float64 the total is exact, in any order of addition, if all entries are
        multiples of one step and all sums are below 2^53 steps.
        """
        if self.size > 1:
            import torch.distributed as dist

            with self._on_host(sums) as (values, group), self._connected():
                dist.reduce(values, dst=0, group=group)

    def broadcast(self, values: Tensor) -> Tensor:
        """Replace `values` by the values of rank 0, in place, and return them; every rank has to call this."""
        if self.size > 1:
            import torch.distributed as dist

            with self._on_host(values) as (same, group), self._connected():
                dist.broadcast(same, src=0, group=group)
        return values

    def _broadcast(self, values: Tensor, group: str) -> None:
        if self.size > 1:
            import torch.distributed as dist

            with self._connected():
                dist.broadcast(values, src=0, group=self._groups[group])

    def _send(self, tensors: Sequence[Tensor], to: int) -> None:
        import torch.distributed as dist

        with self._connected():
            for piece in _pieces(tensors):
                dist.send(piece, dst=to, group=self._groups["cpu"])

    def _received(self, shapes: Sequence[Shape], source: int) -> list[Tensor]:
        """Return new tensors on the CPU with what the rank `source` sends by `_send`.

        `shapes` has a pair of shape and dtype for each tensor.
        """
        import torch
        import torch.distributed as dist

        tensors = [torch.empty(shape, dtype=kind) for shape, kind in shapes]
        with self._connected():
            for piece in _pieces(tensors):
                dist.recv(piece, src=source, group=self._groups["cpu"])
        return tensors

    @contextmanager
    def _on_host(self, values: Tensor) -> Iterator[tuple[Tensor, Any]]:
        """Yield a tensor with `values`, and the group of ranks through which it can be exchanged.

        The tensor is `values` itself on the CPU, or on a GPU if each rank has a GPU of its own and NCCL is there.
        Otherwise it is a copy on the CPU, which is copied back into `values` after the block.
        """
        if values.device.type == "cpu":
            yield values, self._groups["cpu"]
        elif "cuda" in self._groups:
            yield values, self._groups["cuda"]
        else:
            host = values.cpu()
            yield host, self._groups["cpu"]
            values.copy_(host)

    @contextmanager
    def _connected(
        self, sentence: str = "expected {size} processes to the end, but one of them ended"
    ) -> Iterator[None]:
        """Turn a `RuntimeError` in the block into `RankLost`: a lost connection, or a rank that did not answer.

        The message begins with `sentence`, in which "{size}" is replaced by the number of ranks.
        """
        try:
            yield
        except RuntimeError as problem:  # torch has no narrower class for a closed connection of gloo
            raise RankLost(lost_sentence(sentence.format(size=self.size))) from problem


def _bytes(tensor: Tensor) -> Tensor:
    """Return the memory of a contiguous tensor as a flat tensor of bytes."""
    import torch

    return tensor.view(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)


def _pieces(tensors: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield views of the memory of contiguous `tensors`, one tensor after the other, as at most `CHUNK` bytes each."""
    return (piece for tensor in tensors for piece in _bytes(tensor).split(CHUNK))


def _shape(tensor: Tensor) -> Shape:
    return tuple(tensor.shape), tensor.dtype
