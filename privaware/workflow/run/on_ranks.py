"""Train on several ranks: processes that `torchrun` started, or that this module starts on a Ray cluster.

Rank 0 runs a verb whose training the other ranks share. Plans that they cannot share are refused before the charge.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from privaware import registry
from privaware.errors import PrivawareError, Refused, WrongInput
from privaware.learners import find_learner
from privaware.learners._fixed_features import ENTRYWISE
from privaware.ranks import SHARES, Ranks, current, led, on_all_ranks
from privaware.schema import Schema
from privaware.strategies._workers import connected
from privaware.workflow.run.plan import Plan

__all__ = ["expect_divisible", "led_by_rank_0", "ranks_on_ray", "trains_on_ranks"]

COMPARED = (str, Path, int, float, Mapping, list, tuple, Schema)
"""Classes of the options that all ranks must give alike; other options are taken from rank 0."""

P = ParamSpec("P")
T = TypeVar("T")


def led_by_rank_0(verb: Callable[P, T]) -> Callable[P, T]:
    """Return a function that calls `verb` in rank 0 only, if `torchrun` started several processes; all get its result.

    The first argument of `verb` is the data. With several processes, each has to name the same file or built-in data
    set, and to give the same options (`COMPARED` are compared); else `WrongInput` is raised.
    """

    @functools.wraps(verb)
    def on_rank_0(*arguments: P.args, **options: P.kwargs) -> T:
        return on_all_ranks(lambda: verb(*arguments, **options), lambda: _facts(*arguments, **options))

    return on_rank_0


def _facts(data: Any, **options: Any) -> dict[str, str]:
    """Return the data and the plain options of a call, which all ranks must agree in, as texts.

    Raise `WrongInput` unless `data` is a path or a name.
    """
    if not isinstance(data, (str, Path)):
        raise WrongInput(
            f"expected a file or a built-in data set in a script that torchrun started, got {type(data).__name__}; "
            "write the rows to a file, which rank 0 reads"
        )
    from privaware.descent._code_facts import code_facts

    compared = [(name, value) for name, value in sorted(options.items()) if isinstance(value, COMPARED)]
    facts = [(name, repr(value) if isinstance(value, Path) else code_facts(value)) for name, value in compared]
    return {"data": str(data), "options": repr(facts)}


def trains_on_ranks(learner: str) -> bool:
    """Return whether ranks can share the training of the learner called `learner`; False for "auto"."""
    return learner in registry.names("learners") and getattr(find_learner(learner), "on_ranks", False)


def expect_divisible(plan: Plan, device: str) -> None:
    """Raise `Refused` if this process leads other ranks, but ranks can share neither training nor features of `plan`.

    Raise `WrongInput` if `device` is a GPU, but one of the ranks has none. Without other ranks nothing is checked.
    """
    ranks = current()
    if ranks is None or ranks.size == 1:
        return
    computes = any(described["name"] not in ENTRYWISE for described in plan.settings.get("features") or ())
    if not computes and not trains_on_ranks(plan.learner):
        raise Refused(
            f"expected a learner that {ranks.size} processes can train together, such as dpsgd, or features of a "
            f"network, got {plan.learner}; start one process without torchrun"
        )
    ranks.expect_device(device)


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
