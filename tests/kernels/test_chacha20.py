"""ChaCha20 has the words of RFC 8439, numbers of the right distribution, and one stream whatever computes it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from privaware.kernels import chacha20, elementwise
from privaware.kernels.chacha20 import LANES, NUMBERS_PER_BLOCK, ChaCha20, block_words
from privaware.noise import lattice

KEY = bytes(range(32))


def text(words: torch.Tensor) -> str:
    """The bytes of one block."""
    return b"".join(word.to_bytes(4, "little") for word in words[:, 0].tolist()).hex()


def test_words_are_those_of_rfc_8439() -> None:
    """Section 2.3.2: counter 1 and nonce 00:00:00:09:00:00:00:4a:00:00:00:00, in words 12 to 15."""
    key = ChaCha20(KEY, "cpu").key
    number = torch.tensor([1 | (0x09000000 << 32)])
    expected = (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4ed2826446079faa0914c2d705d98b02a2"
        "b5129cd1de164eb9cbd083e8a2503c4e"
    )
    assert text(block_words(key, number, nonce=(0x4A000000, 0))) == expected


@pytest.mark.parametrize(
    ("key", "number", "expected"),
    [  # appendix A.1, test vectors 1 to 4
        (
            bytes(32),
            0,
            "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7da41597c5157488d7724e03fb8d84a37",
        ),
        (
            bytes(32),
            1,
            "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed29b721769ce64e43d57133b074d839d5",
        ),
        (bytes([*[0] * 31, 1]), 1, "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"),
        (bytes([0, 255, *[0] * 30]), 2, "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"),
    ],
)
def test_words_are_those_of_the_appendix(key: bytes, number: int, expected: str) -> None:
    assert text(block_words(ChaCha20(key, "cpu").key, torch.tensor([number]))).startswith(expected)


def test_numbers_are_spread_over_programs_and_lanes() -> None:
    """Number i is slot (i // lanes) % 8 of block lanes * (i // (8 lanes)) + i % lanes: as the kernel stores it."""
    stream = ChaCha20(KEY, "cpu", counter=2**32 - 70)
    numbers = stream.uniform((3, 450))
    words = block_words(stream.key, torch.arange(2**32 - 70, 2**32 - 70 + 3 * LANES))
    for at in (0, 63, 64, 511, 512, 700, 1349):
        slot, block = (at // LANES) % NUMBERS_PER_BLOCK, LANES * (at // (NUMBERS_PER_BLOCK * LANES)) + at % LANES
        high, low = words[2 * slot : 2 * slot + 2, block].tolist()
        assert numbers.flatten()[at] == ((high << 32 | low) >> 11) / 2**53
    assert int(stream.counter) == 2**32 - 70 + 3 * LANES


def test_no_block_is_used_twice() -> None:
    stream = ChaCha20(KEY, "cpu")
    draws = torch.cat([stream.uniform((size,)) for size in (1, 511, 512, 513, 1)])
    assert len(set(draws.tolist())) == len(draws)


def test_numbers_have_their_distributions() -> None:
    stream = ChaCha20(KEY, "cpu")
    assert stats.kstest(stream.uniform((40_000,)).numpy(), "uniform").pvalue > 1e-6
    normal = stream.normal((40_000,)).numpy()
    assert stats.kstest(normal, "norm").pvalue > 1e-6
    pairs = normal[: 40_000 // 512 * 512].reshape(-1, NUMBERS_PER_BLOCK, LANES)
    assert (
        np.abs(np.corrcoef(pairs.transpose(1, 0, 2).reshape(NUMBERS_PER_BLOCK, -1)) - np.eye(NUMBERS_PER_BLOCK)).max()
        < 0.08
    )
    assert (
        np.abs(
            np.corrcoef((pairs**2).transpose(1, 0, 2).reshape(NUMBERS_PER_BLOCK, -1)) - np.eye(NUMBERS_PER_BLOCK)
        ).max()
        < 0.08
    )


def test_tails_reach_beyond_nine_deviations() -> None:
    """The smallest radius word gives the largest draw; 32 bits would end at 6.66."""
    words = torch.zeros(16, 1, dtype=torch.int64)
    largest = float(chacha20._normals(words).max())
    assert largest == pytest.approx(math.sqrt(128 * math.log(2)))
    assert math.erfc(largest / math.sqrt(2)) < 5e-21
    words[:4, 0] = torch.tensor([0xFFFFFFFF, 0xFFFFFFFF, 0, 0])
    assert float(chacha20._normals(words)[0]) == 0.0


@pytest.mark.cuda
@pytest.mark.parametrize("counter", [0, 2**32 - 70])
def test_kernel_computes_the_same_numbers(counter: int) -> None:
    slow, fast = (ChaCha20(KEY, device, counter) for device in ("cpu", "cuda"))
    assert elementwise.ready(fast.key.device)
    assert torch.equal(slow.uniform((3, 450)), fast.uniform((3, 450)).cpu())
    torch.testing.assert_close(slow.normal((3, 450)), fast.normal((3, 450)).cpu(), rtol=1e-12, atol=1e-14)
    assert slow.state() == fast.state()


@pytest.mark.cuda
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("scales", [[0.3, 1.0, 7.7], [2.1]])
def test_kernel_adds_noise_on_the_lattice(kind: torch.dtype, scales: list[float]) -> None:
    exact = torch.linspace(-5, 5, len(scales) * 1433, dtype=kind, device="cuda").view(len(scales), 1433)
    scale = torch.tensor(scales, dtype=kind, device="cuda")[:, None]
    step = lattice(scale)
    stream, again = ChaCha20(KEY, "cuda"), ChaCha20(KEY, "cuda")
    assert stream.fits(exact, scale)
    released = stream.noisy(exact, scale, 2.0**-12)
    expected = (again.normal(tuple(exact.shape)) * (scale / step) + exact / step).round() * step
    assert torch.equal(released / step, (released / step).round())
    assert ((released - expected).abs() > 0).float().mean() < 0.01  # ties and last bits of a sum
    assert ((released - expected).abs() <= step).all()


@pytest.mark.cuda
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_kernel_returns_values_without_noise_as_they_are(kind: torch.dtype) -> None:
    exact = torch.tensor([[0.0, 3.0, -3e9, 1e30]], dtype=kind, device="cuda")
    assert torch.equal(ChaCha20(KEY, "cuda").noisy(exact, torch.zeros_like(exact[:, :1]), 2.0**-12), exact)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_no_block_is_used_twice_whatever_the_shapes(device: str) -> None:
    stream, drawn = ChaCha20(KEY, device, 2**32 - 1000), []
    for count in (1, 7, 8, 9, 511, 512, 513, 1, 40_000, 3, 0, 512):
        drawn += stream.uniform((count,)).tolist()
    assert len(set(drawn)) == len(drawn)


@pytest.mark.cuda
def test_releases_in_a_graph_never_repeat_noise() -> None:
    exact, scale = torch.zeros(3, 700, device="cuda", dtype=torch.float64), torch.ones(3, 1, device="cuda").double()
    stream, released = ChaCha20(KEY, "cuda"), []
    stream.noisy(exact, scale, 2.0**-40)  # compiled before the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first, second = stream.noisy(exact, scale, 2.0**-40), stream.noisy(exact[:1], scale[:1], 2.0**-40)
    for _ in range(40):
        graph.replay()
        released += first.flatten().tolist() + second.flatten().tolist()
    assert len(set(released)) > 0.999 * len(released)
