"""DPNAS: searches, the networks they find, and the paper's tables and figures, as one list of resumable jobs.

    python -m benchmarks.dpnas run --device cuda --store dpnas.jsonl --limit 560
    python -m benchmarks.dpnas list --store dpnas.jsonl
    python -m benchmarks.dpnas page --store dpnas.jsonl --plots docs/results/dpnas
    python -m benchmarks.dpnas run --data digits --store digits.jsonl          (minutes on a CPU)

Every job is one line of the store, written when it is done; the same command goes on where it stopped, and a search
goes on from its last saved epoch (a file beside the store). The most important and cheapest come first; `--only` takes
beginnings of names such as `search/mnist` or `train/cifar10/found`. With `--limit` no job is begun that would end past
so many seconds, judged by jobs of its kind that are in the store, or by a guess. Several processes may share a store:
each takes what no other has taken. A job that fails prints its error, and the next goes on.

Searches run on benchmark rows as public ones: steps clipped at 0.1 with noise 0.8, exact scores, nothing charged, as in
the paper. Networks are trained from scratch on all training rows with the authors' evaluation settings (clipping norm
0.1, batch 2,048, learning rate 2, momentum 0.9, noise 2.15 or 2.0664); one training gives the accuracy at the steps
where the classic epsilon reaches 1, 2 and 3.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

DATA = ("mnist", "fashion_mnist", "cifar10")
ACTIVATIONS = ("relu", "relu6", "elu", "selu", "hardtanh", "leaky_relu")
"""Beside tanh, which is the plain `cnn`."""
GUESS = {"check": 40.0, "search": 110.0, "derive": 60.0, "mnist": 30.0, "fashion_mnist": 30.0, "cifar10": 55.0}
SEEDS = 5
SMALL = ("small", "sgd", "random", "dp")
"""Networks in the small form."""

Store = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Job:
    """`name` is kind/data/what/seed; `needs` are jobs whose result it reads."""

    name: str
    needs: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Jobs that take about equally long."""
        words = self.name.split("/")
        if words[0] == "train":
            form = dict.fromkeys(SMALL, "small") | {"cnn": "cnn", "mirrored": "mirrored"}
            words[2] = form.get(words[2].partition("_")[0], "whole")
        return "/".join(words[:3])


def found(data: str, what: str = "found", seeds: range = range(SEEDS), of: str = "") -> list[Job]:
    """Trainings of one network on one data set."""
    needs = {f"derive/{of or data}", f"derive/{data}"}
    if what.startswith("cnn"):
        needs = set()
    elif what.startswith("sgd"):
        needs |= {f"search/{data}/sgd"}
    return [Job(f"train/{data}/{what}/{seed}", tuple(sorted(needs))) for seed in seeds]


def jobs(chosen: tuple[str, ...]) -> Iterator[Job]:
    """Everything, in the order of what it is worth for its time."""
    from benchmarks import _dpnas

    if chosen == ("digits",):
        yield from quick()
        return
    yield Job("check")
    for data in chosen:
        yield Job(f"search/{data}/dp")
    for data in chosen:
        yield Job(f"derive/{data}", (f"search/{data}/dp",))
        yield from found(data)
        if _dpnas.CASES[data].mirrored:
            yield from found(data, "mirrored")
    last = chosen[-1]
    yield from hand_made(chosen, range(1))
    for data in chosen:
        for other in chosen:
            if other != data:
                yield from found(data, f"from_{other}", range(1), of=other)
    for name in (*ACTIVATIONS, "average_pool"):
        yield from found(last, f"cnn_{name}", range(1))
    yield Job(f"search/{last}/sgd")
    for variant in ("sgd", "random", "dp"):
        for at in range(20):
            yield from found(last, f"{variant}_{at:02d}", range(1))
    yield from hand_made(chosen, range(1, SEEDS))
    for data in chosen:
        yield from found(data, "paper", range(1))
    yield Job(f"search/{last}/uniform")


def hand_made(chosen: tuple[str, ...], seeds: range) -> Iterator[Job]:
    """The found cell in the small form beside the hand-made network."""
    for seed in seeds:
        for data in chosen:
            yield from found(data, "small", range(seed, seed + 1))
            yield from found(data, "cnn", range(seed, seed + 1))


def quick() -> Iterator[Job]:
    """The whole way on small data."""
    yield Job("search/digits/dp")
    yield Job("derive/digits", ("search/digits/dp",))
    yield from found("digits", "found", range(3))
    for at in range(6):
        yield from found("digits", f"random_{at:02d}", range(1))
    yield from found("digits", "cnn", range(3))
    yield Job("search/digits/uniform")
    for what in ("search_8", "random_8", "search_4", "random_4"):
        yield from (Job(f"charged/digits/{what}/{seed}") for seed in range(SEEDS))


def done(job: Job, store: Store, given: argparse.Namespace) -> dict[str, Any]:
    from benchmarks import _dpnas

    words = job.name.split("/")
    if words[0] == "check":
        return _dpnas.check(given.device)
    if words[0] == "search":
        saved = given.store.with_name(f"{given.store.stem}.{words[1]}.{words[2]}.npz")
        tell = progress(job.name)
        own = dict(given.search or ())
        return _dpnas.search(words[1], words[2], own, given.seed, given.device, saved, tell)
    if words[0] == "charged":
        from benchmarks._dpnas_charged import charged

        what, epsilon = words[2].split("_")
        return charged(what, float(epsilon), int(words[3]))
    if words[0] == "derive":
        found = store[f"search/{words[1]}/dp"]
        return _dpnas.derive(words[1], found, given.device, given.precision)
    description, lr = network(words[1], words[2], store)
    seed, mirrored = int(words[3]), words[2] == "mirrored"
    at = (given.device, given.precision)
    return _dpnas.train(words[1], description, seed, *at, lr, mirrored=mirrored)


def network(data: str, what: str, store: Store) -> tuple[dict[str, Any], float]:
    """The description behind the third word of a training's name, and the learning rate."""
    from benchmarks import _dpnas
    from privaware.strategies._dpnas_cells import uniform_cells

    case = _dpnas.CASES[data]
    kind, _, rest = what.partition("_")
    if kind == "cnn":
        more = {"pooling": "average"} if rest == "average_pool" else {"activation": rest or "tanh"}
        return {**case.cnn, **more}, case.cnn_lr
    if kind == "paper":
        cell = _dpnas.CELLS[data]
    elif kind == "random":
        import numpy as np

        cell = list(uniform_cells(20, 5, np.random.default_rng(7))[int(rest)])
    elif kind in ("sgd", "dp"):
        cell = store[f"search/{data}/{kind}"]["cells"][int(rest)]
    else:
        cell = store[f"derive/{rest if kind == 'from' else data}"]["cell"]
    small = case.small if kind in SMALL else {}
    lr = _dpnas.long_rate(data, store[f"derive/{data}"]["lr"])
    return _dpnas.described(data, cell, **small), lr


def progress(name: str) -> Callable[[int, int, float], None]:
    heard = [0.0]

    def tell(step: int, steps: int, left: float) -> None:
        if time.monotonic() - heard[0] > 10 or step == steps:
            heard[0] = time.monotonic()
            print(f"  {name}: epoch {step} of {steps}, {left:.0f} s left", file=sys.stderr, flush=True)

    return tell


def read(path: Path) -> Store:
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return {line["job"]: line for line in lines}


def keep(path: Path, record: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())


def expected(job: Job, known: Store) -> float:
    """Seconds that jobs of this kind took, or a guess."""
    alike = [line["wall"] for name, line in known.items() if Job(name).kind == job.kind]
    words = job.name.split("/")
    return max(alike) if alike else GUESS.get(words[0], GUESS.get(words[min(1, len(words) - 1)], 60.0))


def run(given: argparse.Namespace) -> None:
    began, failed = time.monotonic(), set[str]()
    while True:
        store = read(given.store)
        todo = [job for job in listed(given) if job.name not in store and job.name not in failed]
        gone = time.monotonic() - began
        ready = [job for job in todo if all(need in store for need in job.needs)]
        short = [job for job in ready if gone + 1.15 * expected(job, store) <= given.limit]
        if ready and not short:
            print(f"none of {len(ready)} ends within {given.limit:.0f} s: {len(todo)} are left")
            break
        held = next((both for both in ((job, claim(given, job)) for job in short) if both[1]), None)
        if held is None:
            names = {job.name for job in todo}
            if gone > given.limit or not any(names.intersection(job.needs) for job in todo):
                for job in todo:
                    print(f"{job.name} is left: it needs {' and '.join(job.needs) or 'nothing'}")
                break
            time.sleep(1)  # another process has what the rest waits for
            continue
        job, file = held
        start = time.monotonic()
        try:
            record = {"job": job.name, **done(job, store, given)}
        except Exception:
            traceback.print_exc()
            print(f"{job.name} failed", flush=True)
            failed.add(job.name)
            file.close()
            continue
        record |= {"wall": round(time.monotonic() - start, 1), "device": given.device}
        keep(given.store, record)
        file.close()
        print(f"[{gone:.0f} s, {len(todo) - 1} left] {told(record)}", flush=True)
    if failed:
        raise SystemExit(f"failed: {' '.join(sorted(failed))}")


def claim(given: argparse.Namespace, job: Job) -> IO[str] | None:
    """A lock on the job, held until it is closed or this process ends; None if another process has it."""
    folder = given.store.with_suffix(".claims")
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / job.name.replace("/", ".")).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    if job.name in read(given.store):  # done between looking and locking
        file.close()
        return None
    return file


def told(record: dict[str, Any]) -> str:
    if "accuracy" in record:
        scores = ", ".join(f"{100 * score:.2f}" for score in record["accuracy"])
        return f"{record['job']}: {scores} ({record['parameters']} parameters, {record['wall']} s)"
    if "cell" in record:
        return f"{record['job']}: {' '.join(record['cell'])}, {record['score']:.4f} ({record['wall']} s)"
    return json.dumps(record)


def listed(given: argparse.Namespace) -> list[Job]:
    wanted = tuple(given.only or ("",))
    return [job for job in jobs(tuple(given.data)) if job.name.startswith(wanted)]


def setting(text: str) -> tuple[str, Any]:
    """A field of the search and its value, as `lr=2`."""
    name, _, value = text.partition("=")
    return name, json.loads(value)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("verb", choices=("run", "list", "page"))
    arguments.add_argument("--store", type=Path, default=Path("dpnas.jsonl"))
    arguments.add_argument("--data", nargs="*", default=list(DATA))
    arguments.add_argument("--only", nargs="*", help="beginnings of the names of jobs")
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--precision", default="tf32", help="of products on a GPU")
    arguments.add_argument("--seed", type=int, default=0, help="of the searches")
    arguments.add_argument("--search", nargs="*", type=setting, help="lr=2 updates=8 ...")
    arguments.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    arguments.add_argument("--plots", type=Path, help="a folder for the figures")
    given = arguments.parse_args()
    if given.verb == "run":
        run(given)
    elif given.verb == "list":
        store = read(given.store)
        for job in listed(given):
            print(f"{'done' if job.name in store else f'{expected(job, store):4.0f}'} {job.name}")
    else:
        from benchmarks._dpnas_page import page

        print(page(read(given.store), given.plots))


if __name__ == "__main__":
    main()
