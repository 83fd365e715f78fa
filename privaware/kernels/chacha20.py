"""Draw random numbers on a device by ChaCha20 (RFC 8439) with a key of 256 bits.

A stream consists of a key and a block counter. Both lie on the device, so a captured CUDA graph draws new numbers at
every replay. A block has 16 words of 32 bits and gives 8 numbers. A uniform number takes 64 bits and keeps 53 of them.
Normal numbers come in 4 pairs by the Box-Muller transform in float64. The radius of a pair has 64 bits, so no draw
exceeds 9.42 standard deviations; the missing tails have a probability of 5e-21. (With 32 bits, as in `torch.randn` on
CUDA, it would be 3e-11, which occurs once in about 14,000 steps of 2.7 million parameters.) Triton computes a stream in
one kernel. Without Triton, PyTorch's operations compute the same words more slowly.
"""

# mypy: disable-error-code="untyped-decorator, no-untyped-def"
# (what Triton compiles is not Python: annotations other than constexpr would mislead)

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from privaware.kernels import elementwise
from privaware.kernels.elementwise import tl, triton

__all__ = ["ChaCha20", "block_words"]

LANES = 64
"""Number of ChaCha20 blocks that one Triton program computes, one for each thread."""

NUMBERS_PER_BLOCK = 8
"""Number of random numbers, uniform or normal, from one ChaCha20 block."""

CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
"""The first four words of ChaCha20's state, which the RFC fixes."""

WORD = 0xFFFFFFFF
"""Mask of the low 32 bits."""


if triton is not None:

    @triton.jit
    def _quarter(a, b, c, d):
        a += b
        d ^= a
        d = (d << 16) | (d >> 16)
        c += d
        b ^= c
        b = (b << 12) | (b >> 20)
        a += b
        d ^= a
        d = (d << 8) | (d >> 24)
        c += d
        b ^= c
        b = (b << 7) | (b >> 25)
        return a, b, c, d

    @triton.jit
    def _words(key, at):
        """Return the 16 words of the blocks with the counters `at` (uint64); `key` points to the 8 words of the key."""
        zero = (at ^ at).to(tl.uint32)
        i0, i1, i2, i3 = zero + 0x61707865, zero + 0x3320646E, zero + 0x79622D32, zero + 0x6B206574
        i4, i5 = zero + tl.load(key).to(tl.uint32), zero + tl.load(key + 1).to(tl.uint32)
        i6, i7 = zero + tl.load(key + 2).to(tl.uint32), zero + tl.load(key + 3).to(tl.uint32)
        i8, i9 = zero + tl.load(key + 4).to(tl.uint32), zero + tl.load(key + 5).to(tl.uint32)
        i10, i11 = zero + tl.load(key + 6).to(tl.uint32), zero + tl.load(key + 7).to(tl.uint32)
        i12, i13 = at.to(tl.uint32), (at >> 32).to(tl.uint32)
        x0, x1, x2, x3, x4, x5, x6, x7 = i0, i1, i2, i3, i4, i5, i6, i7
        x8, x9, x10, x11, x12, x13, x14, x15 = i8, i9, i10, i11, i12, i13, zero, zero
        for _ in range(10):
            x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
            x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
            x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
            x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
            x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
            x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
            x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
            x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
        x0, x1, x2, x3, x4, x5, x6, x7 = x0 + i0, x1 + i1, x2 + i2, x3 + i3, x4 + i4, x5 + i5, x6 + i6, x7 + i7
        x8, x9, x10, x11, x12, x13 = x8 + i8, x9 + i9, x10 + i10, x11 + i11, x12 + i12, x13 + i13
        return x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15

    @triton.jit
    def _uniform(high, low):
        return (((high.to(tl.uint64) << 32) | low.to(tl.uint64)) >> 11).to(tl.float64) * 1.1102230246251565e-16

    @triton.jit
    def _normal(a, b, c, d):
        share = (a.to(tl.float64) * 4294967296.0 + b.to(tl.float64) + 1.0) * 5.421010862427522e-20
        radius = tl.sqrt(-2.0 * tl.log(share))
        angle = _uniform(c, d) * 6.283185307179586
        return radius * tl.cos(angle), radius * tl.sin(angle)

    @triton.jit
    def _eight(key, counter, NORMAL: tl.constexpr, LANES: tl.constexpr):
        """Return eight vectors of `LANES` random numbers, normal with `NORMAL`, else uniform.

        A vector has one number of each of the `LANES` blocks of this program. `counter` points to the number of the
        first block of the first program.
        """
        number = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES) + tl.load(counter)
        x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15 = _words(key, number.to(tl.uint64))
        if NORMAL:
            n0, n1 = _normal(x0, x1, x2, x3)
            n2, n3 = _normal(x4, x5, x6, x7)
            n4, n5 = _normal(x8, x9, x10, x11)
            n6, n7 = _normal(x12, x13, x14, x15)
        else:
            n0, n1, n2, n3 = _uniform(x0, x1), _uniform(x2, x3), _uniform(x4, x5), _uniform(x6, x7)
            n4, n5, n6, n7 = _uniform(x8, x9), _uniform(x10, x11), _uniform(x12, x13), _uniform(x14, x15)
        return n0, n1, n2, n3, n4, n5, n6, n7

    @triton.jit
    def _draw(key, counter, out, count, NORMAL: tl.constexpr, LANES: tl.constexpr):
        numbers = _eight(key, counter, NORMAL, LANES)
        first = tl.program_id(0).to(tl.int64) * (8 * LANES) + tl.arange(0, LANES)
        for slot in tl.static_range(8):
            at = first + slot * LANES
            tl.store(out + at, numbers[slot], mask=at < count)

    @triton.jit
    def _noisy(key, counter, exact, scales, out, width, count, spacing, ONE: tl.constexpr, LANES: tl.constexpr):
        numbers = _eight(key, counter, True, LANES)
        first = tl.program_id(0).to(tl.int64) * (8 * LANES) + tl.arange(0, LANES)
        for slot in tl.static_range(8):
            at = first + slot * LANES
            inside = at < count
            if ONE:
                scale = tl.load(scales).to(tl.float64)
            else:
                scale = tl.load(scales + at // width, mask=inside, other=1.0).to(tl.float64)
            # Clearing the mantissa rounds `scale * spacing` down to a power of two.
            bits = (scale * spacing).to(tl.int64, bitcast=True) & 0x7FF0000000000000
            bits = tl.maximum(bits, 0x20B0000000000000)  # 2^-500, also for a scale of 0
            step = bits.to(tl.float64, bitcast=True)
            inverse = (0x7FE0000000000000 - bits).to(tl.float64, bitcast=True)
            value = tl.load(exact + at, mask=inside, other=0.0).to(tl.float64) + scale * numbers[slot]
            tl.store(out + at, tl.floor(value * inverse + 0.5) * step, mask=inside)


class ChaCha20:
    """A stream of random numbers on one device.

    `key` has 32 bytes, and `counter` is the number of the next ChaCha20 block. Every draw advances `counter` past the
    blocks that it used, so no block is used twice.
    """

    def __init__(self, key: bytes, device: Any, counter: int = 0) -> None:
        words = [int.from_bytes(key[at : at + 4], "little") for at in range(0, 32, 4)]
        self.key = torch.tensor(words, dtype=torch.int64, device=device)
        self.counter = torch.tensor([counter], dtype=torch.int64, device=device)

    def uniform(self, shape: tuple[int, ...]) -> Tensor:
        """Return uniform multiples of 2^-53 in [0, 1), as float64."""
        return self._numbers(shape, normal=False)

    def normal(self, shape: tuple[int, ...]) -> Tensor:
        """Return standard normal numbers, as float64."""
        return self._numbers(shape, normal=True)

    def noisy(self, exact: Tensor, scale: Tensor, spacing: float) -> Tensor:
        """Return `exact` (models, width) plus `scale` (models, 1) times new standard normal numbers, by one kernel.

        The result has the type of `exact`. Each row is rounded to multiples of the largest power of two that is at most
        `scale * spacing`, and at least 2^-500. Call it only if `fits` returns True; there is no version without Triton.
        """
        out = torch.empty_like(exact)
        arguments = (self.key, self.counter, exact, scale, out, exact.shape[1], exact.numel(), spacing)
        _noisy[(self._programs(exact.numel()),)](*arguments, ONE=len(exact) == 1, LANES=LANES, num_warps=2)
        self._advance(exact.numel())
        return out

    def fits(self, exact: Tensor, scale: Any) -> bool:
        """Return whether `noisy` supports these arguments, on a device for which Triton compiles kernels.

        `exact` must be a contiguous floating-point matrix, and `scale` a contiguous floating-point tensor (rows of
        `exact`, 1).
        """
        if not isinstance(scale, Tensor) or exact.ndim != 2 or scale.shape != (len(exact), 1):
            return False
        tensors = (exact, scale)
        return elementwise.ready(exact.device) and all(t.is_floating_point() and t.is_contiguous() for t in tensors)

    def state(self) -> dict[str, Any]:
        """Return key and counter as plain numbers."""
        return {"key": self.key.tolist(), "counter": int(self.counter)}

    @classmethod
    def restore(cls, state: dict[str, Any], device: Any) -> ChaCha20:
        """Return the stream with this `state`, a result of the method `state`, on `device`."""
        return cls(b"".join(word.to_bytes(4, "little") for word in state["key"]), device, state["counter"])

    def _numbers(self, shape: tuple[int, ...], normal: bool) -> Tensor:
        count = math.prod(shape)
        programs = self._programs(count)
        if count and elementwise.ready(self.key.device):
            out = self.key.new_empty(count, dtype=torch.float64)
            _draw[(programs,)](self.key, self.counter, out, count, NORMAL=normal, LANES=LANES, num_warps=2)
        else:
            words = block_words(self.key, self.counter + torch.arange(programs * LANES, device=self.key.device))
            numbers = _normals(words) if normal else _uniforms(words[0::2], words[1::2])
            out = numbers.view(NUMBERS_PER_BLOCK, programs, LANES).transpose(0, 1).flatten()[:count]
        self._advance(count)
        return out.view(shape)

    @staticmethod
    def _programs(count: int) -> int:
        return -(-count // (NUMBERS_PER_BLOCK * LANES))

    def _advance(self, count: int) -> None:
        self.counter += self._programs(count) * LANES


def block_words(key: Tensor, numbers: Tensor, nonce: tuple[int, int] = (0, 0)) -> Tensor:
    """Return the 16 words of ChaCha20 blocks as int64 (16, blocks), for the blocks with these counter `numbers`.

    `key` holds 8 words of 32 bits as int64. Counter and nonce have 64 bits each; `nonce` is two words, the low one
    first.

    >>> block_words(torch.zeros(8, dtype=torch.int64), torch.tensor([0]))[0].tolist() == [0xADE0B876]
    True
    """
    constants, last = ([torch.full_like(numbers, word) for word in words] for words in (CONSTANTS, nonce))
    keys = list(key[:, None].expand(-1, len(numbers)))
    first = torch.stack([*constants, *keys, numbers & WORD, (numbers >> 32) & WORD, *last])
    a, b, c, d = first.view(4, 4, -1)
    for _ in range(10):
        a, b, c, d = _quarter_rounds(a, b, c, d)
        b, c, d = b.roll(-1, 0), c.roll(-2, 0), d.roll(-3, 0)
        a, b, c, d = _quarter_rounds(a, b, c, d)
        b, c, d = b.roll(1, 0), c.roll(2, 0), d.roll(3, 0)
    return (torch.cat([a, b, c, d]) + first) & WORD


def _quarter_rounds(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Apply ChaCha20's quarter round to four columns of words at once, and return the new words.

    Each argument is (4, blocks), words of 32 bits as int64.
    """
    for left, right in ((16, 12), (8, 7)):
        a = (a + b) & WORD
        d = _rotated(d ^ a, left)
        c = (c + d) & WORD
        b = _rotated(b ^ c, right)
    return a, b, c, d


def _rotated(word: Tensor, by: int) -> Tensor:
    return ((word << by) | (word >> (32 - by))) & WORD


def _uniforms(high: Tensor, low: Tensor) -> Tensor:
    return ((high << 21) | (low >> 11)).double() * 2.0**-53


def _normals(words: Tensor) -> Tensor:
    a, b, c, d = words.view(4, 4, -1).unbind(1)
    radius = (-2.0 * torch.log((a.double() * 2.0**32 + b.double() + 1.0) * 2.0**-64)).sqrt()
    angle = _uniforms(c, d) * (2.0 * math.pi)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1).flatten(0, 1)
