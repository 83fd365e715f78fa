"""Open the processes that `torchrun` started, and let rank 0 lead them."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np

from privaware._version import __version__
from privaware.errors import PrivawareError, Refused, WrongInput
from privaware.ranks._ending import RankLost, RanksEnded, Told, ended_by_torchrun
from privaware.ranks._exchange import Exchange

T = TypeVar("T")

STEP_TIMEOUT = timedelta(minutes=10)
"""Longest time for which a rank waits for another one inside a job."""

START_TIMEOUT = timedelta(minutes=5)
"""Longest time for which a rank waits for the others to start."""

IDLE_TIMEOUT = timedelta(days=365)
"""Longest time for which a rank waits for the next job, because rank 0 may compute alone for long."""

REPORT_TIMEOUT = timedelta(seconds=10)
"""Longest time for which rank 1 waits to see whether rank 0 reports a problem."""

REPORTED = "privaware/reported"
"""The key that rank 0 sets in the store when it ends the other ranks."""

LEFT = "expected ranks that follow, but a problem of rank 0 ended them in an earlier training"
"""What rank 0 says about a training after one that raised."""


@dataclass(eq=False)
class Ranks(Exchange):
    """The processes of one run, as seen by the process with number `rank` of `size`: one leads, and the others follow.

    `_store` is torch's key-value store of the present connection, a part of `_meeting`, the store where the ranks met,
    which outlives connections. `_connections` counts them, and `_owns` says whether this object initialised
    `torch.distributed`. `_busy` is True while the block of a job runs, and stays True after the block has raised.
    """

    _store: Any = field(default=None, repr=False)
    _meeting: Any = field(default=None, repr=False)
    _connections: int = field(default=0, repr=False)
    _owns: bool = field(default=False, repr=False)
    _busy: bool = field(default=False, repr=False)

    @classmethod
    def of_environment(cls) -> Ranks | None:
        """Return the ranks that `torchrun` describes in this process's environment, or None without `torchrun`.

        They are not connected yet.
        """
        if "TORCHELASTIC_RUN_ID" not in os.environ:
            return None
        rank, size, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
        return cls(rank, size, local)

    def device(self, device: str) -> str:
        """Return the device on which this rank computes while rank 0 computes on `device`.

        Rank 0 gets `device`, and so does every rank if `device` is a CPU. Otherwise the result is "cuda:N", where N is
        `local_gpu`. Raise `WrongInput` if a GPU is needed and this machine has none.
        """
        import torch

        if torch.device(device).type != "cuda" or self.leads:
            return device
        if not torch.cuda.is_available():
            raise WrongInput(f"expected a GPU for rank {self.rank}, got none; start fewer processes, or use cpu")
        return f"cuda:{self.local_gpu}"

    @property
    def local_gpu(self) -> int:
        """The number of this rank's GPU on its machine; ranks share a GPU if there are more ranks than GPUs."""
        import torch

        return self.local % max(torch.cuda.device_count(), 1)

    # Starting and ending.

    def open(self) -> None:
        """Connect the ranks; do nothing if there is a single rank, or if they are connected already.

        Raise `RanksEnded` if they do not all start within `START_TIMEOUT` or if the block of an earlier job has raised,
        and `WrongInput` if they run different versions of this package, torch or NumPy, by whose generators all ranks
        draw the same sample.
        """
        if self._busy:
            raise RanksEnded(LEFT)
        if self.size == 1 or self._groups:
            return
        import torch
        import torch.distributed as dist
        from torch.distributed.rendezvous import rendezvous

        with self._connected("expected all {size} processes to reach this call, but some did not"):
            if not dist.is_initialized():
                if self._meeting is None:
                    self._meeting, *_ = next(rendezvous(self.place, self.rank, self.size, timeout=START_TIMEOUT))
                    atexit.register(self.close)
                self._connections += 1
                attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # a restart must not read old addresses
                self._store = dist.PrefixStore(  # type: ignore[attr-defined]
                    f"attempt {attempt}, connection {self._connections}", self._meeting
                )
                dist.init_process_group(
                    "gloo", store=self._store, timeout=START_TIMEOUT, rank=self.rank, world_size=self.size
                )
                self._owns = True
            self._groups["idle"] = dist.new_group(backend="gloo", timeout=STEP_TIMEOUT if self.leads else IDLE_TIMEOUT)
            self._groups["cpu"] = dist.new_group(backend="gloo", timeout=STEP_TIMEOUT)
        versions = {"privaware": __version__, "torch": str(torch.__version__), "numpy": np.__version__}
        self.expect_equal({f"version of {name}": version for name, version in versions.items()})
        gpus = self.gathered(_gpu(self.local_gpu))
        if all(gpus) and len(set(gpus)) == self.size:
            self._groups["cuda"] = dist.new_group(backend="nccl", timeout=STEP_TIMEOUT)

    def close(self) -> None:
        """Disconnect this rank, if it is connected; torch's default process group of the caller is left open."""
        import torch.distributed as dist

        if self._groups and dist.is_initialized():
            for group in [None] if self._owns else self._groups.values():
                dist.destroy_process_group(group)
        self._groups.clear()
        self._owns = False

    def expect_equal(self, facts: Mapping[str, str], advice: str = "start all of them in the same way") -> None:
        """Raise `WrongInput` on every rank unless all ranks give the same `facts`; the message ends with `advice`.

        `facts` are texts by name. The message has the name of the first fact that differs from rank 0's, but no value.
        """
        every = self.gathered(dict(facts))
        for rank, other in enumerate(every):
            for name in facts:
                if other.get(name) != every[0][name]:
                    raise WrongInput(
                        f"expected the same {name} in all {self.size} processes, but rank {rank} has another than "
                        f"rank 0; {advice}"
                    )

    def follow(self) -> Any:
        """Call the jobs that rank 0 starts, one after the other, until rank 0 calls `end`.

        Return the result that rank 0 sends with `end`. Only ranks other than 0 call this. Raise `RanksEnded` if rank 0
        ends with a failure, or if the connection is lost.
        """
        try:
            while True:
                kind, content = self.shared(None)
                if kind != "job":
                    break
                job, arguments = content
                job(self, *arguments)
        except BaseException:
            self._busy = True
            self.close()
            raise
        if kind == "failed":
            raise RanksEnded(content)
        return content

    @contextmanager
    def job(self, function: Callable[..., None], *arguments: Any) -> Iterator[None]:
        """Let all other ranks call `function(ranks, *arguments)` while rank 0 computes inside the block.

        Only rank 0 calls this; the other ranks wait in `follow`. The function and its arguments are sent pickled
        (cloudpickle). With a single rank nobody calls `function`. If the block raises, every later `job` and `open`
        raises `RanksEnded`, unless all ranks left the block together (see `agreed`).
        """
        if self._busy:
            raise RanksEnded(LEFT)
        self.shared(("job", (function, arguments)))
        self._busy = True
        yield
        self._busy = False

    def end(self, kind: str, content: Any) -> None:
        """End the other ranks, which wait for jobs in `follow`; only rank 0 calls this.

        If `kind` is "ended", `follow` returns `content` on them. If `kind` is "failed", `follow` raises
        `RanksEnded(content)`. If the block of a job has raised, rank 0 disconnects, which ends ranks inside the job.
        """
        if self._store is not None:
            self._store.set(REPORTED, kind)
        if self._busy:
            self.close()
        else:
            self.shared((kind, content))

    @property
    def reported(self) -> bool:
        """Whether rank 0 has called `end`, and so tells the user itself why the ranks ended.

        Wait up to `REPORT_TIMEOUT` for the call. The value is also False if this rank never connected, or if rank 0 was
        lost.
        """
        try:
            self._store.wait([REPORTED], REPORT_TIMEOUT)
        except (AttributeError, RuntimeError):  # never connected, or the store was lost with rank 0
            return False
        return True

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """Raise on every rank if the block raises a `PrivawareError` on at least one: all ranks leave a job together.

        All ranks have to enter the block. At its end they exchange whether it raised. A rank whose own block raised
        raises that error again. Any other rank raises `WrongInput` with the message of the first rank that failed. An
        error of another class is raised at once, on its rank alone; the other ranks then wait for it and raise
        `RankLost`.
        """
        problem: PrivawareError | None = None
        try:
            yield
        except PrivawareError as raised:
            problem = raised
        others = self.gathered(None if problem is None else str(problem))
        if problem is not None:
            self._busy = False
            raise problem
        for rank, sentence in enumerate(others):
            if sentence is not None:
                self._busy = False
                raise WrongInput(f"rank {rank}: {sentence}")

    def expect_device(self, device: str) -> None:
        """Raise `WrongInput` if `device` is a GPU, but another rank has none; only rank 0 calls this, outside a job."""
        if device.startswith("cuda"):
            with self.job(_follow_device, device), self.agreed():
                pass


_open: list[Ranks] = []
"""The ranks of this process, once they are connected; at most one entry."""

_leading: list[Ranks] = []
"""The ranks that this process leads at present; at most one entry."""


def _started() -> Ranks | None:
    """Return the ranks that `torchrun` started, connected or not; None if this process was started without it."""
    return _open[0] if _open else Ranks.of_environment()


def current() -> Ranks | None:
    """Return the ranks that this process leads at present, or None if it leads none."""
    return _leading[0] if _leading else None


def reports(problem: BaseException | None = None) -> bool:
    """Return whether this process, rather than another rank, tells the user about `problem`.

    Rank 0 does, and so does a process without `torchrun`. Rank 1 does if `problem` is a `RankLost` and rank 0 does not
    end the ranks within `REPORT_TIMEOUT`, as when rank 0 itself was lost. But if `torchrun` ended rank 1 before it was
    connected, rank 0 or `torchrun` reports. All other ranks never do.
    """
    ranks = _started()
    if ranks is None or ranks.leads:
        return True
    if not isinstance(problem, RankLost) or (isinstance(problem.__cause__, Told) and not _speaks()):
        return False
    return ranks.rank == 1 and not ranks.reported


def _speaks() -> bool:
    """Return whether this process may say that `torchrun` ends it, without asking another rank.

    Rank 0 may, and so may rank 1 once it was connected, because rank 0 may be lost since. So may a process without
    `torchrun`.
    """
    ranks = _started()
    return ranks is None or ranks.leads or (ranks.rank == 1 and bool(_open))


def expect_led() -> None:
    """Raise `Refused` if `torchrun` started several processes, and this one does not lead the others.

    Whatever charges a ledger calls this function first, because each process would charge on its own.
    """
    ranks = _started()
    if ranks is not None and ranks.size > 1 and not _leading:
        raise Refused(
            f"expected one charge for all {ranks.size} processes of torchrun, but each of them would charge; use "
            "privaware.train or privaware.fit in a script, or `torchrun ... -m privaware COMMAND`"
        )


def joined() -> Ranks | None:
    """Connect the ranks that `torchrun` started, and return them.

    Return None, and connect nothing, without `torchrun` and while this process leads ranks (inside `led`). Raise what
    `Ranks.open` raises.
    """
    ranks = None if _leading else _started()
    if ranks is not None:
        ranks.open()
        _open[:] = [ranks]
    return ranks


def on_all_ranks(call: Callable[[], T], facts: Callable[[], Mapping[str, str]] = dict) -> T:
    """Return `call()`, computed by rank 0 with the help of all other ranks, on every rank.

    Without `torchrun`, or inside another call of `on_all_ranks`, `call` is simply called. If it raises on rank 0, the
    other ranks raise `RanksEnded`. At the end the ranks disconnect.

    Parameters
    ----------
    call : callable
        What rank 0 computes.
    facts : callable
        Returns texts by name that must be the same on all ranks; otherwise `WrongInput` is raised. It is called only if
        `torchrun` started several processes.

    Returns
    -------
    object
        The result of rank 0.
    """
    if _leading or _started() is None:
        return call()
    with ended_by_torchrun(_speaks):
        ranks = joined()
        assert ranks is not None
        try:
            if ranks.size > 1:
                ranks.expect_equal(facts())
            if not ranks.leads:
                followed: T = ranks.follow()
                return followed
            with led(ranks):
                result = call()
            ranks.end("ended", result)
        finally:
            ranks.close()
    return result


@contextmanager
def led(ranks: Ranks) -> Iterator[None]:
    """Lead the open `ranks` inside the block, where `current` returns them.

    If the block raises, the other ranks raise `RanksEnded` with its message on one line, and the error is raised again.
    Otherwise the other ranks go on waiting for jobs.
    """
    _leading.append(ranks)
    try:
        yield
    except BaseException as problem:
        ranks.end("failed", " ".join(str(problem).split()))
        raise
    finally:
        _leading.clear()


def _follow_device(ranks: Ranks, device: str) -> None:
    """Take part in `expect_device` on a rank other than 0: tell all ranks whether this rank can compute on `device`.

    If it cannot, nothing is raised here; `agreed` raises `WrongInput` on rank 0, which reports it.
    """
    with suppress(WrongInput), ranks.agreed():
        ranks.device(device)


def _gpu(number: int) -> str:
    """Return the UUID of the GPU with this `number` on this machine; an empty text without NCCL or without a GPU."""
    import torch
    import torch.distributed as dist

    if not dist.is_nccl_available() or not torch.cuda.is_available():
        return ""
    return str(torch.cuda.get_device_properties(number).uuid)
