"""Hold the generators of a run, each with a key of 256 bits from the operating system's entropy.

1. On the CPU a stream is numpy's generator SFC64, and the key is its whole state. SFC64 is fast but no cipher, so
   nobody should see many of its raw outputs. Nobody does: they are released only as noise on unknown sums.
2. A sample of rows is a function of row positions: Philox, with a key of 128 bits that the sampling stream gives to
   each sample (`_positions`). Philox is no cipher either, but samples are not released.
3. On another device a stream is ChaCha20 with its own key.
4. PyTorch's own generators serve only what protects no row: initial weights, public rows, proposals of a search.
   All 19,937 bits of the CPU generator's state come from the stream. CUDA's generator takes 64 bits only.
5. With a seed, all keys come from 128 bits of numpy's hash of the seed, which is enough to repeat a run.

No two processes draw the same unseeded noise. A forked child, a copy and a pickle all get new keys. Only `state` and
`restore` continue a stream, for a checkpoint. Seeded streams keep their state in all these cases, so that a seeded run
in several processes can be repeated.
"""

from __future__ import annotations

import os
import secrets
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from privaware.errors import WrongInput

if TYPE_CHECKING:
    from privaware.kernels.chacha20 import ChaCha20

STREAMS = ("sampling", "noise", "initial")
"""Names of the streams."""

KEY_BYTES = 32
"""Length of a key in bytes."""


class Streams:
    """Separate generators for sampling, noise and initial values, on the CPU and on every device that is used.

    All keys follow from `seed`. If it is None, they come from the operating system's entropy.
    """

    def __init__(self, seed: int | None) -> None:
        self.seed = seed
        self.cpu = {name: np.random.Generator(_sfc64(seed, at)) for at, name in enumerate(STREAMS)}
        self._on_device: dict[tuple[str, str], ChaCha20] = {}
        self._torch: dict[tuple[str, str], Any] = {}
        _alive.add(self)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or pickle contains: all generators of a seeded run, but no key of an unseeded run."""
        return {"seed": None} if self.seed is None else vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["seed"] is None:
            Streams.__init__(self, None)
        else:
            vars(self).update(state)

    def take_new_keys(self) -> None:
        """Give every generator a new key if there is no seed; with a seed do nothing.

        Generators of other devices and of torch are dropped. They are made again, with new keys, when they are next
        used.
        """
        if self.seed is None:
            for at, stream in enumerate(self.cpu.values()):
                stream.bit_generator.state = _sfc64(None, at).state
            self._on_device.clear()
            self._torch.clear()

    def on(self, stream: str, device: Any) -> ChaCha20:
        """Return the generator of `stream` ("sampling", "noise" or "initial") on `device`, which is not the CPU.

        The first call makes it, with a key from the operating system or, in a seeded run, from the CPU's generator of
        this stream. Later calls return the same generator.
        """
        import torch

        from privaware.kernels.chacha20 import ChaCha20

        place = torch.empty(0, device=device).device
        at = (stream, str(place))
        if at not in self._on_device:
            key = secrets.token_bytes(KEY_BYTES) if self.seed is None else self.cpu[stream].bytes(KEY_BYTES)
            self._on_device[at] = ChaCha20(key, place)
        return self._on_device[at]

    def torch(self, stream: str, device: str) -> Any:
        """Return the torch generator of `stream` ("sampling", "noise" or "initial") on a device.

        Every call with the same arguments returns the same generator. Without a seed, a generator on the CPU gets its
        whole state from the CPU's stream, and one on another device a seed of 64 bits from the operating system. In a
        seeded run it gets a seed of 63 bits from the CPU's stream.
        """
        import torch

        at = (stream, device)
        if at not in self._torch:
            generator = torch.Generator(device=device)
            if self.seed is not None:
                generator.manual_seed(int(self.cpu[stream].integers(2**63)))
            elif generator.device.type == "cpu":
                _fill(generator, self.cpu[stream])
            else:
                generator.manual_seed(secrets.randbits(64))
            self._torch[at] = generator
        return self._torch[at]

    def state(self) -> dict[str, Any]:
        """Return the seed and the state of all generators as nested dictionaries of plain numbers, for `restore`.

        It is secret.
        """
        return {
            "seed": self.seed,
            "streams": {name: _plain(stream.bit_generator.state) for name, stream in self.cpu.items()},
            "chacha20": {f"{stream}/{device}": of.state() for (stream, device), of in self._on_device.items()},
            "torch": {
                f"{stream}/{device}": generator.get_state().numpy().tolist()
                for (stream, device), generator in self._torch.items()
            },
        }

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Streams:
        """Return the generators with this `state`, which `Streams.state` returned.

        A CPU stream that is not in it gets a new key, or with a seed starts from the seed. Raise `WrongInput` for a
        state of an older version whose sampling or noise was drawn by a torch generator of a GPU.
        """
        import torch

        from privaware.kernels.chacha20 import ChaCha20

        old = sorted(key for key in state["torch"] if not key.endswith("/cpu") and not key.startswith("initial/"))
        if old and "chacha20" not in state:
            raise WrongInput(
                f"expected a checkpoint of this version, got one whose streams {', '.join(old)} were keyed with 63 "
                "bits; continue with the version that wrote it, or delete it and start the run again"
            )
        streams = cls(state["seed"])
        for name, inner in state["streams"].items():
            at = {**inner, "state": {"state": np.array(inner["state"]["state"], dtype=np.uint64)}}
            streams.cpu[name].bit_generator.state = at
        for key, inner in state.get("chacha20", {}).items():
            stream, device = key.split("/", 1)
            streams._on_device[(stream, device)] = ChaCha20.restore(inner, device)
        for key, inner in state["torch"].items():
            stream, device = key.split("/", 1)
            generator = torch.Generator(device=device)
            generator.set_state(torch.tensor(inner, dtype=torch.uint8))
            streams._torch[(stream, device)] = generator
        return streams


_alive: weakref.WeakSet[Streams] = weakref.WeakSet()
"""All streams of this process, which get new keys in a forked child."""


def _after_fork() -> None:
    for streams in list(_alive):
        streams.take_new_keys()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _sfc64(seed: int | None, at: int) -> np.random.SFC64:
    """Return a CPU generator for the stream number `at`.

    Its whole state is 256 random bits of the operating system if `seed` is None. Otherwise it follows from `seed` and
    `at`.
    """
    if seed is not None:
        return np.random.SFC64([seed, at])
    generator = np.random.SFC64(0)
    key = np.frombuffer(secrets.token_bytes(KEY_BYTES), dtype=np.uint64)
    generator.state = {**generator.state, "state": {"state": key.copy()}}
    return generator


MERSENNE = slice(24, 24 + 8 * 624)
"""Position of the 624 words of 8 bytes in the state of a torch generator on the CPU."""


def _fill(generator: Any, source: np.random.Generator) -> None:
    """Set the whole state of the torch `generator`, which is on the CPU, in place by draws from `source`.

    `manual_seed` alone would use only 32 bits of a seed.
    """
    import torch

    generator.manual_seed(0)
    state = generator.get_state().numpy().copy()
    state[MERSENNE] = source.integers(2**32, size=624, dtype=np.uint64).view(np.uint8)
    generator.set_state(torch.from_numpy(state))


def _plain(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return [int(word) for word in state] if isinstance(state, np.ndarray) else state
