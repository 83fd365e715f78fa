"""Lead processes on a Ray cluster as ranks, which train a network together with this process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from privaware.errors import PrivawareError, WrongInput
from privaware.ranks import SHARES, Ranks, led
from privaware.strategies._workers import connected

__all__ = ["ranks_on_ray"]


@contextmanager
def ranks_on_ray(address: str, device: str) -> Iterator[None]:
    """Start one process for each free GPU of the cluster (each free CPU if `device` is a CPU); lead them as rank 0.

    `address` is the address of the Ray cluster. With this process there are at most `SHARES` ranks, so that the result
    does not depend on their number. The started processes end with the block. Raise `WrongInput` if no GPU or processor
    is free, and `RanksEnded` if the processes do not start.
    """
    ray, kind = connected(address), "GPU" if device.startswith("cuda") else "CPU"
    others = min(int(ray.available_resources().get(kind, 0)), SHARES - 1)
    if others < 1:
        raise WrongInput(
            f"expected a free {kind} on the Ray cluster, got none; look at `ray status`, or leave --ray out"
        )
    place = f"tcp://{ray.util.get_node_ip_address()}:{_free_port()}"
    needs = {"num_cpus": int(kind == "CPU"), "num_gpus": int(kind == "GPU"), "max_retries": 0}
    task = ray.remote(**needs)(_follow)
    following = [task.remote(Ranks(rank, others + 1, place=place)) for rank in range(1, others + 1)]
    ranks = Ranks(0, others + 1, place=place)
    try:
        ranks.open()
        with led(ranks):
            ranks.expect_device(device)
            yield
        ranks.end("ended", None)
        ray.wait(following, num_returns=len(following), timeout=60)
    finally:
        ranks.close()


def _follow(ranks: Ranks) -> None:
    """Take part in a training as one of `ranks`, in a task of Ray: do what rank 0 says until it ends.

    Rank 0 reports an error of the run, so it is not raised here.
    """
    with suppress(PrivawareError):
        ranks.open()
        ranks.follow()
    ranks.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
