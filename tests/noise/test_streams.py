"""256 bits of the operating system reach every generator, and a resumed run continues all of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from privaware.errors import WrongInput
from privaware.noise import Rng, _streams
from privaware.noise._streams import MERSENNE, Streams


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was read from the operating system."""
    read: list[bytes] = []
    real = _streams.secrets.token_bytes

    def token_bytes(count: int) -> bytes:
        read.append(real(count))
        return read[-1]

    monkeypatch.setattr(_streams.secrets, "token_bytes", token_bytes)
    return read


def test_p20_the_key_is_256_bits_of_the_operating_system(keys: list[bytes]) -> None:
    Rng(seed=1)
    assert keys == []
    Rng()
    assert [len(key) for key in keys] == [32, 32, 32]


def test_p20_all_256_bits_are_the_state_of_a_stream_on_the_cpu(keys: list[bytes]) -> None:
    streams = Streams(None)
    states = [stream.bit_generator.state["state"]["state"].tobytes() for stream in streams.cpu.values()]
    assert states == keys


def test_p20_all_256_bits_are_the_key_of_a_stream_on_a_device(keys: list[bytes]) -> None:
    streams = Streams(None)
    on_device = [streams.on(stream, "cpu") for stream in ("noise", "sampling")]
    for stream, key in zip(on_device, keys[3:], strict=True):
        assert b"".join(word.to_bytes(4, "little") for word in stream.key.tolist()) == key


def test_every_word_of_a_torch_generator_comes_from_its_stream() -> None:
    """`manual_seed` keeps 32 bits: generators seeded with 7 and with 7 + 2^32 draw the same."""
    twins = [torch.Generator().manual_seed(seed) for seed in (7, 7 + 2**32)]
    assert torch.equal(*(torch.rand(5, generator=generator) for generator in twins))
    streams = Streams(None)
    words = Streams.restore(streams.state()).cpu["initial"].integers(2**32, size=624, dtype=np.uint64)
    generator = streams.torch("initial", "cpu")
    assert np.array_equal(generator.get_state().numpy()[MERSENNE].view(np.uint64), words)
    draws = torch.rand(20_000, generator=generator)
    assert 0.49 < float(draws.mean()) < 0.51
    assert len(set(draws.tolist())) > 19_900


def test_generators_of_two_runs_share_nothing() -> None:
    one, two = Rng(), Rng()
    assert not np.array_equal(one.initial.random(4), two.initial.random(4))
    assert not np.array_equal(one.initial.random(4), one.spawn().initial.random(4))
    assert not torch.equal(*(torch.rand(4, generator=rng.torch("initial")) for rng in (one, two)))
    assert not torch.equal(*(rng.uniforms((4,), "cpu") for rng in (one, two)))


def test_streams_on_a_device_are_separate_and_repeat_with_a_seed() -> None:
    one, two = Streams(5), Streams(5)
    two.on("sampling", "cpu").uniform((100,))
    assert torch.equal(one.on("noise", "cpu").normal((9,)), two.on("noise", "cpu").normal((9,)))
    assert not torch.equal(one.on("noise", "cpu").normal((9,)), one.on("sampling", "cpu").normal((9,)))


@pytest.mark.parametrize("seed", [9, None])
def test_restored_generator_continues_all_streams(seed: int | None) -> None:
    rng = Rng(seed)
    rng.torch("initial")
    rng.uniforms((700,), "cpu")
    rng.poisson(20, 0.5)
    copy = Rng.restore(json.loads(json.dumps(rng.state())))
    assert np.array_equal(rng.poisson(50, 0.3), copy.poisson(50, 0.3))
    zeros = np.zeros(5)
    assert np.array_equal(*(r.gaussian(zeros, noise=1.0, sensitivity=1.0) for r in (rng, copy)))
    assert torch.equal(*(torch.rand(3, generator=r.torch("initial")) for r in (rng, copy)))
    assert torch.equal(*(r.uniforms((3,), "cpu") for r in (rng, copy)))
    assert rng.certified == copy.certified == (seed is None)


def old_state(stream: str, device: str) -> dict[str, Any]:
    """A state as checkpoints held it before device streams were keyed with 256 bits."""
    state = {key: value for key, value in Rng(seed=3).state().items() if key != "chacha20"}
    return {**state, "torch": {f"{stream}/{device}": torch.Generator().get_state().tolist()}}


def test_older_device_checkpoint_is_refused_but_cpu_one_resumes() -> None:
    with pytest.raises(WrongInput, match="keyed with 63 bits; continue with the version that wrote it"):
        Rng.restore(old_state("noise", "cuda:0"))
    restored = Rng.restore(old_state("initial", "cpu"))
    assert np.array_equal(restored.poisson(50, 0.3), Rng(seed=3).poisson(50, 0.3))


@pytest.mark.cuda
def test_cuda_noise_is_chacha20_and_new_at_each_graph_replay() -> None:
    rng, exact, scale = Rng(seed=4), torch.zeros(2, 700, device="cuda"), torch.ones(2, 1, device="cuda")
    saved = [counter.clone() for counter in rng.counters("cuda")]
    eager = [rng.gaussian(exact, noise=scale, sensitivity=1.0) for _ in range(3)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = rng.gaussian(exact, noise=scale, sensitivity=1.0)
    for counter, value in zip(rng.counters("cuda"), saved, strict=True):
        counter.copy_(value)
    for expected in eager:
        graph.replay()
        assert torch.equal(captured, expected)
    copy = Rng.restore(json.loads(json.dumps(rng.state())))
    assert torch.equal(*(r.gaussian(exact, noise=scale, sensitivity=1.0) for r in (rng, copy)))
