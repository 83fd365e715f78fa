"""A private step beside a plain step and beside Opacus, in one run: time, memory, model-steps per second.

    python -m research.comparisons.descent --quick
    python -m research.comparisons.descent --device cuda --out docs/results/descent

Plain SGD runs in the same mode as the private step: eager against eager, captured against captured. If Opacus is
installed, its hooks, ghost clipping and functorch are measured eagerly, one model at a time. Opacus cannot be captured,
so the comparable step of this package is the eager one. A case that fails prints its error, and the next case runs.
TF32 is off unless the line says so.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.benchmark import Timer

from privaware import models
from privaware.bench._store import machine
from privaware.descent import Poisson
from research.comparisons import record
from research.comparisons._descent_steps import (
    allow_tf32,
    built,
    examples,
    opacus,
    own_loop,
    plain_captured,
    plain_eager,
    private,
)

SINGLE = {
    "FCN 300-64-10": "bao.fcn.cifar10.19914",
    "CNN 56,970": "bao.cnn.mnist.56970",
    "Tramer CNN 26K": "tramer_boneh.cnn.mnist.26010",
    "scattering linear": "tramer_boneh.linear.mnist.39700",
    "CIFAR CNN 551K": "tramer_boneh.cnn.cifar10.550570",
}
TABLE_XVII = (
    "bao.cnn.svhn.1817930",
    "bao.cnn.svhn.600522",
    "bao.fcn.svhn.221066",
    "bao.fcn.svhn.39818",
    "bao.lstm.sms.496978",
    "bao.lstm.sms.50994",
)
VGG = "dpmlbench.vgg.colour.128807306"
NETWORKS = {
    "SimpleCNN": "dpmlbench.simple_cnn.colour.171246",
    "ResNet20": "dpmlbench.resnet20.colour.268346",
    "InceptionNet": "dpmlbench.inception.colour.1609690",
    "VGG": VGG,
}
"""The networks of DPMLBench, by the names of the paper."""
FASTEST = "plain SGD tf32, channels last"
"""The fastest plain step of a convolutional network, which a private step in TF32 is compared with."""
POPULATIONS = {"FCN 300-64-10": (16, 64, 256, 1024), "CNN 56,970": (4, 16, 64, 256)}
Step = Callable[[], Any]


@dataclass(frozen=True)
class Clock:
    """The median time and the memory of a step, on one device."""

    device: str
    seconds: float
    processor: bool = False

    def measure(self, step: Step) -> dict[str, float]:
        for _ in range(3):
            step()
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        timer = Timer("step()", globals={"step": step}, timer=self.now, num_threads=torch.get_num_threads())
        median = timer.blocked_autorange(min_run_time=self.seconds).median
        return {"milliseconds": 1000 * median, "megabytes": self._megabytes()}

    def now(self) -> float:
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.process_time() if self.processor else time.perf_counter()

    def _megabytes(self) -> float:
        if self.device == "cuda":
            return torch.cuda.max_memory_allocated() / 2**20
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


class Bench:
    """Measures cases, prints each beside plain SGD and Opacus, and stores it."""

    def __init__(self, clock: Clock, name: str, out: Path | None) -> None:
        self.clock, self.name, self.out = clock, name, out
        self.times: dict[tuple[Any, ...], float] = {}

    @property
    def cuda(self) -> bool:
        return self.clock.device == "cuda"

    @property
    def mode(self) -> str:
        """How training runs on this device."""
        return "captured" if self.cuda else "eager"

    def case(self, model: str, batch: int, way: str, mode: str, make: Callable[[], Step], count: int = 1) -> None:
        line = f"{model:20} {batch:6} {way:28} {mode:9}"
        try:
            result = self.clock.measure(make())
        except Exception as error:
            print(f"{line} failed: {type(error).__name__}: {error!s:.120}", flush=True)
            return
        finally:
            allow_tf32(False)
            gc.collect()
            if self.cuda:
                torch.cuda.empty_cache()
        self.times[model, batch, way, mode] = result["milliseconds"] / count
        result |= self._beside(model, batch, way, mode, count)
        settings = {"device": self.name, "model": model, "batch": batch, "way": way, "mode": mode, "models": count}
        record(self.out, "benchmarks/descent", settings, result, self.clock.device)
        print(line, {name: round(value, 3) for name, value in result.items()}, flush=True)

    def _beside(self, model: str, batch: int, way: str, mode: str, count: int) -> dict[str, float]:
        """Return the time relative to plain SGD in the same mode.

        For a population, return model-steps per second and the speed relative to Opacus' hooks.
        """
        if not way.startswith("privaware"):
            return {}
        each = self.times[model, batch, way, mode]
        if count == 1:
            plain = self.times.get((model, batch, FASTEST, mode), self.times.get((model, batch, "plain SGD", mode)))
            return {} if plain is None else {"over_plain": each / plain}
        rival = self.times.get((model, batch, "opacus hooks", "eager"))
        return {"rate": 1000 / each} | ({} if rival is None else {"over_opacus": rival / each})


def one_model(bench: Bench, label: str, name: str, batch: int, rivals: bool) -> None:
    device, description = bench.clock.device, models.named()[name].description
    x, y = examples(description, batch, device)

    def case(way: str, mode: str, make: Callable[[nn.Module], Step]) -> None:
        bench.case(label, batch, way, mode, lambda: make(built(description, device)))

    case("plain SGD", "eager", partial(plain_eager, x=x, y=y))
    if bench.cuda:
        case("plain SGD", "captured", partial(plain_captured, x=x, y=y))
    for kind in ("hooks", "ghost", "functorch") if rivals else ():
        case(f"opacus {kind}", "eager", partial(opacus, kind, x=x, y=y))
    case("privaware", "eager", lambda module: private([module], x, y, device=device))
    case("privaware clipped_sum", "eager", partial(own_loop, x=x, y=y))
    for precision in ("float32", "tf32", "bf16") if bench.cuda else ():
        way = "privaware" if precision == "float32" else f"privaware {precision}"
        step = partial(private, x=x, y=y, device=device, captured=True, precision=precision)
        case(way, "captured", _alone(step))
    sampled(bench, label, description, batch)


def _alone(step: Callable[[list[nn.Module]], Step]) -> Callable[[nn.Module], Step]:
    return lambda module: step([module])


def _many(
    step: Callable[[list[nn.Module]], Step], description: dict[str, Any], device: str, count: int
) -> Callable[[], Step]:
    return lambda: step([built(description, device) for _ in range(count)])


def sampled(bench: Bench, label: str, description: dict[str, Any], batch: int) -> None:
    """Measure the whole step with its Poisson sample of a larger data set, which is the cost of a run."""
    device, count = bench.clock.device, 20 * batch
    if models.example(description, 1).numel() * count > 2e8:
        return
    x, y = examples(description, count, device)
    step = partial(private, x=x, y=y, device=device, captured=bench.cuda, sampler=Poisson(rate=batch / count))
    bench.case(label, batch, "privaware, Poisson of 20 x", bench.mode, lambda: step([built(description, device)]))


def network(bench: Bench, label: str, name: str, batch: int = 256) -> None:
    """Measure a private step in TF32 beside the fastest plain step: channels last, TF32, and captured on a GPU."""
    device, description = bench.clock.device, models.named()[name].description
    x, y = examples(description, batch, device)

    def plain() -> Step:
        allow_tf32(True)
        module = built(description, device).to(memory_format=torch.channels_last)
        make = plain_captured if bench.cuda else plain_eager
        return make(module, x.to(memory_format=torch.channels_last), y)

    for _ in range(2):  # the second time shows the spread of the first
        bench.case(label, batch, FASTEST, bench.mode, plain)
        for way, more in (("privaware tf32", {}), ("privaware tf32, Poisson of 20 x", {"sampler": Poisson(rate=0.05)})):
            rows = examples(description, 20 * batch, device) if more else (x, y)
            step = partial(private, x=rows[0], y=rows[1], device=device, captured=bench.cuda, precision="tf32", **more)
            bench.case(label, batch, way, bench.mode, partial(_built_step, step, description, device))


def _built_step(step: Callable[[list[nn.Module]], Step], description: dict[str, Any], device: str) -> Step:
    return step([built(description, device)])


def population(bench: Bench, label: str, name: str, batch: int, count: int) -> None:
    device, description = bench.clock.device, models.named()[name].description
    x, y = examples(description, batch, device)
    for precision in ("float32", "tf32") if bench.cuda else ("float32",):
        way = "privaware" if precision == "float32" else f"privaware {precision}"
        step = partial(private, x=x, y=y, device=device, captured=bench.cuda, precision=precision)
        bench.case(label, batch, way, bench.mode, _many(step, description, device, count), count)


def measure(bench: Bench, parts: list[str], quick: bool, begin: str, batches: list[int] | None) -> None:
    rivals = importlib.util.find_spec("opacus") is not None
    if "single" in parts:
        for label, name in SINGLE.items():
            for batch in batches or ((256,) if quick else (256, 2048)):
                small = quick and not bench.cuda and label.startswith("CIFAR")
                if label.startswith(begin):
                    one_model(bench, label, name, 32 if small else batch, rivals)
    if "population" in parts:
        for label, counts in POPULATIONS.items():
            for count in counts[:2] if quick or not bench.cuda else counts:
                population(bench, label, SINGLE[label], 256, count)
    if "bao" in parts and not quick:
        for name in TABLE_XVII:
            one_model(bench, name.removeprefix("bao."), name, 256, rivals=False)
    if "networks" in parts:
        for label, name in NETWORKS.items():
            if label.startswith(begin):
                network(bench, label, name)
    if "vgg" in parts and (bench.cuda or not quick):
        one_model(bench, "VGG 128.8M", VGG, 256 if bench.cuda else 16, rivals=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--name", help="what the machine is called in the store; default: its own name")
    parser.add_argument("--quick", action="store_true", help="small batches, short timings, few cases")
    parser.add_argument("--models", default="", help="single models whose label begins so")
    parser.add_argument("--batches", type=int, nargs="*", help="batches of the single models")
    parser.add_argument("--seconds", type=float, help="timing of each case")
    parser.add_argument("--cpu-time", action="store_true", help="processor time, for a machine that is shared")
    parser.add_argument("--out", type=Path, help="a folder of stored cells")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--only", default="single,population,bao,vgg", help="parts")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    allow_tf32(False)
    clock = Clock(options.device, options.seconds or (0.3 if options.quick else 1.0), options.cpu_time)
    bench = Bench(clock, options.name or machine(options.device), options.out)
    print(f"{machine(options.device)}; torch {torch.__version__}; {torch.get_num_threads()} threads")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measure(bench, options.only.split(","), options.quick, options.models, options.batches)


if __name__ == "__main__":
    main()
