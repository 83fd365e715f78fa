"""No noise is drawn twice: not after a fork, and not by a copy or a pickle of a generator."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch

from privaware.noise import Rng
from privaware.strategies._workers import Processes

DRAWS: dict[str, Callable[[Rng], Any]] = {
    "gaussian array": lambda rng: rng.gaussian(np.zeros(5), noise=1.0, sensitivity=1.0).tolist(),
    "gaussian tensor": lambda rng: rng.gaussian(torch.zeros(5), noise=1.0, sensitivity=1.0).tolist(),
    "gaussian number": lambda rng: rng.gaussian(0.0, noise=1.0, sensitivity=1.0),
    "laplace array": lambda rng: rng.laplace(np.zeros(5), noise=1.0, sensitivity=1.0).tolist(),
    "laplace number": lambda rng: rng.laplace(0.0, noise=1.0, sensitivity=1.0),
    "choice": lambda rng: [rng.choose(np.zeros(1000), epsilon=1.0, sensitivity=1.0) for _ in range(4)],
    "response": lambda rng: rng.respond(np.zeros(60, dtype=int), epsilon=0.1, classes=9).tolist(),
    "sample": lambda rng: rng.poisson(200, 0.5).astype(int).tolist(),
    "32 bits": lambda rng: rng._streams.cpu["noise"].integers(2**32, size=3, dtype=np.uint32).tolist(),
    "device": lambda rng: rng.uniforms((3,), "cpu").tolist(),
    "torch": lambda rng: torch.rand(3, generator=rng.torch("initial")).tolist(),
}
FORK = """
    import json, os
    from privaware.noise import Rng
    from tests.noise.test_copies import DRAWS

    for seed in (None, 5):
        rng = Rng(seed)
        held = rng._streams.cpu["noise"]
        for draw in DRAWS.values():  # buffers are filled and generators of devices exist before the fork
            draw(rng)
        child = os.fork()
        values = {name: draw(rng) for name, draw in DRAWS.items()} | {"held": held.random(3).tolist()}
        os.write(1, (json.dumps(values) + "\\n").encode())
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def after_fork() -> list[dict[str, Any]]:
    """What a parent and its child draw from one generator without a seed, and from one with a seed."""
    command = [sys.executable, "-c", textwrap.dedent(FORK)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_process_draws_noise_of_its_own(after_fork: list[dict[str, Any]]) -> None:
    one, two, *_ = after_fork
    assert [name for name in one if one[name] == two[name]] == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_seeded_generator_repeats_its_numbers_after_a_fork(after_fork: list[dict[str, Any]]) -> None:
    *_, one, two = after_fork
    assert one == two


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "cloudpickle": lambda value: pickle.loads(cloudpickle.dumps(value)),
}


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("make", COPIES)
def test_a_copy_never_draws_the_noise_of_its_original(make: str, draw: str) -> None:
    rng = Rng()
    DRAWS[draw](rng)
    twin = COPIES[make](rng)
    assert DRAWS[draw](twin) != DRAWS[draw](rng)


def test_two_copies_of_one_pickle_share_no_noise() -> None:
    pickled = pickle.dumps(Rng())
    one, two = (DRAWS["gaussian array"](pickle.loads(pickled)) for _ in range(2))
    assert one != two


def test_a_pickle_of_an_unseeded_generator_holds_no_key() -> None:
    rng = Rng()
    keys = [stream.bit_generator.state["state"]["state"].tobytes() for stream in rng._streams.cpu.values()]
    assert [key for key in keys if key[:8] in pickle.dumps(rng)] == []


@pytest.mark.parametrize("make", ["deepcopy", "pickle", "cloudpickle"])
def test_a_copy_of_a_seeded_generator_repeats_its_numbers(make: str) -> None:
    rng = Rng(seed=3)
    twin = COPIES[make](rng)
    assert all(draw(twin) == draw(rng) for draw in DRAWS.values())


def _drawn(shared: None, rng: Rng) -> Any:
    return DRAWS["gaussian array"](rng)


def test_workers_given_one_generator_share_no_noise() -> None:
    """Jobs of a seeded search have generators of their own; an unseeded one may even be given to all."""
    seeded = Rng(4)
    jobs = [Rng()] * 3 + [seeded.spawn() for _ in range(3)]
    drawn = dict(Processes(2).run_jobs(_drawn, None, jobs))
    assert len({tuple(values) for values in drawn.values()}) == 6
