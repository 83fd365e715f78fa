"""A private step beside a plain one and beside Opacus, in one run: time, memory, model-steps a second.

    python benchmarks/descent.py --quick
    python benchmarks/descent.py --device cuda --json descent.json

Plain SGD runs in the same mode as the private step: eager against eager, captured against captured. Opacus is measured
where it is installed: hooks, ghost clipping and functorch, one model at a time. A case that fails prints its error and
the next goes on. Shorter mantissas (tf32) are off unless the line says so.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import platform
import resource
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from privaware import models
from privaware.descent import Descent, FullBatch, Poisson, flat, sgd
from privaware.descent._run import Run
from privaware.noise import Rng

SINGLE = {
    "FCN 300-64-10": "bao.fcn.cifar10.19914",
    "CNN 56,970": "bao.cnn.mnist.56970",
    "Tramer CNN 26K": "tramer_boneh.cnn.mnist.26010",
    "scattering linear": "tramer_boneh.linear.mnist.39700",
    "CIFAR CNN 551K": "tramer_boneh.cnn.cifar10.550570",
}
TABLE_XVII = {
    "bao.cnn.svhn.1817930": (23.94, 1.26),
    "bao.cnn.svhn.600522": (20.58, 0.84),
    "bao.fcn.svhn.221066": (15.96, 0.50),
    "bao.fcn.svhn.39818": (12.60, 0.34),
    "bao.lstm.sms.496978": (18.80, 0.56),
    "bao.lstm.sms.50994": (15.28, 0.42),
}
"""Printed seconds an epoch, private and plain: ratios from 19.0 to 37.1."""
VGG = "dpmlbench.vgg.colour.128807306"
POPULATIONS = {"FCN 300-64-10": (16, 64, 256, 1024), "CNN 56,970": (4, 16, 64, 256)}


@dataclass
class Line:
    """One measured way of doing one step."""

    model: str
    batch: int
    way: str
    mode: str
    milliseconds: float
    megabytes: float | None
    models: int = 1

    @property
    def rate(self) -> float:
        """Model-steps a second."""
        return 1000 * self.models / self.milliseconds


class Clock:
    """The median time of a step and the memory it took, on one device."""

    def __init__(self, device: str, seconds: float, processor: bool = False) -> None:
        self.device, self.seconds = device, seconds
        self.now = time.process_time if processor else time.perf_counter

    def sync(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def measure(self, step: Callable[[], Any]) -> tuple[float, float | None]:
        for _ in range(3):
            step()
        self.sync()
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        many = self._rounds(step)
        times, began = [], self.now()
        while self.now() - began < self.seconds or len(times) < 3:
            start = self.now()
            for _ in range(many):
                step()
            self.sync()
            times.append((self.now() - start) / many)
        return 1000 * statistics.median(times), self._megabytes()

    def _rounds(self, step: Callable[[], Any]) -> int:
        """Steps between two readings: enough that reading the clock (and waiting for the device) costs nothing."""
        start = self.now()
        step()
        self.sync()
        each = self.now() - start
        return max(1, min(200, int(0.05 / max(each, 1e-6))))

    def _megabytes(self) -> float | None:
        if self.device == "cuda":
            return torch.cuda.max_memory_allocated() / 2**20
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def short_mantissas(on: bool) -> None:
    """Whether matrix products and convolutions on CUDA may round to tf32."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = on


def rows_for(
    description: dict[str, Any], count: int, device: str
) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = models.example(description, count).to(device)
    with torch.no_grad():
        outputs = models.build(description).to(device)(inputs[:2]).shape[1]
    return inputs, torch.randint(outputs, (count,), device=device)


def built(description: dict[str, Any], device: str, dropout: bool = False) -> nn.Module:
    module = models.build(description).to(device)
    return module.train() if dropout else module.eval()


def plain_eager(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        F.cross_entropy(module(x), y).backward()
        optimiser.step()

    return step


def plain_captured(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())

    def body() -> None:
        F.cross_entropy(module(x), y).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=False)

    with torch.cuda.stream(side):
        for _ in range(3):
            body()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()
    return graph.replay


def private(
    modules: list[nn.Module],
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    device: str,
    captured: bool = False,
    sampler: Any = None,
    precision: str = "float32",
    physical: int | None = None,
) -> Callable[[], None]:
    short_mantissas(precision != "float32")
    descent = Descent(
        steps=1_000 if captured else 10**9,
        sampler=sampler or FullBatch(),
        clip=flat(1.0),
        update=sgd(0.01),
        overflow=1e-10,
        precision=precision,
        physical=physical,
    )
    run = Run(
        descent, modules, x, y, noise=[1.0] * len(modules), rows=len(x), rng=Rng(), device=device
    )
    if not captured:
        return run.one_step
    from privaware.descent._capture import Captured

    graphs = Captured(run)

    def step() -> None:
        graphs.one_step()

    # The tables hold a thousand steps; the benchmark replays the first ones again and again.
    reset = [0]

    def wrapped() -> None:
        step()
        reset[0] += 1
        if reset[0] % 900 == 0:
            graphs.at.zero_()

    return wrapped


def opacus(kind: str, module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(x, y), batch_size=len(x))
    module.train()
    criterion = nn.CrossEntropyLoss()
    made = PrivacyEngine().make_private(
        module=module,
        optimizer=optimiser,
        data_loader=loader,
        criterion=criterion,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
        grad_sample_mode={"hooks": "hooks", "ghost": "ghost", "functorch": "functorch"}[kind],
    )
    if kind == "ghost":
        module, optimiser, criterion, _ = made
    else:
        module, optimiser, _ = made

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        criterion(module(x), y).backward()
        optimiser.step()

    return step


class Bench:
    """Runs cases, prints a table, keeps the lines."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.lines, self.errors = clock, [], []

    def case(
        self, model: str, batch: int, way: str, mode: str, make: Callable[[], Any], models: int = 1
    ) -> Line | None:
        try:
            milliseconds, megabytes = self.clock.measure(make())
        except Exception as error:
            words = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[
                :160
            ]
            print(f"{model:20} {batch:6} {way:28} {mode:9} failed: {words}", flush=True)
            self.errors.append(
                {"model": model, "batch": batch, "way": way, "mode": mode, "error": words}
            )
            return None
        finally:
            short_mantissas(False)
            gc.collect()
            if self.clock.device == "cuda":
                torch.cuda.empty_cache()
        line = Line(model, batch, way, mode, milliseconds, megabytes, models)
        self.lines.append(line)
        memory = "" if megabytes is None else f"{megabytes:9.0f} MB"
        print(
            f"{model:20} {batch:6} {way:28} {mode:9} {milliseconds:10.3f} ms {memory} {line.rate:12.1f} model-steps/s"
            f" {self.beside(line)}",
            flush=True,
        )
        return line

    def beside(self, line: Line) -> str:
        """How a private line stands to plain SGD in the same mode and to Opacus."""
        words = []
        for other in self.lines:
            if (other.model, other.batch) != (line.model, line.batch) or not line.way.startswith(
                "privaware"
            ):
                continue
            ratio = line.milliseconds / line.models / other.milliseconds
            if other.way == "plain SGD" and line.models == 1:
                words.append(f"{ratio:.2f} x plain {other.mode}")
            elif other.way.startswith("opacus"):
                words.append(f"{1 / ratio:.1f} x faster than {other.way}")
        return "; ".join(words)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def one_model(bench: Bench, label: str, name: str, batch: int, rivals: bool) -> None:
    device = bench.clock.device
    description = models.named()[name].description
    x, y = rows_for(description, batch, device)
    cuda = device == "cuda"
    bench.case(
        label, batch, "plain SGD", "eager", lambda: plain_eager(built(description, device), x, y)
    )
    if cuda:
        bench.case(
            label,
            batch,
            "plain SGD",
            "captured",
            lambda: plain_captured(built(description, device), x, y),
        )
    for kind in ("hooks", "ghost", "functorch") if rivals else ():
        bench.case(
            label,
            batch,
            f"opacus {kind}",
            "eager",
            lambda kind=kind: opacus(kind, built(description, device), x, y),
        )
    bench.case(
        label,
        batch,
        "privaware",
        "eager",
        lambda: private([built(description, device)], x, y, device=device),
    )
    if cuda:
        for precision in ("float32", "tf32", "bf16"):
            way = "privaware" if precision == "float32" else f"privaware {precision}"
            bench.case(
                label,
                batch,
                way,
                "captured",
                lambda precision=precision: private(
                    [built(description, device)],
                    x,
                    y,
                    device=device,
                    captured=True,
                    precision=precision,
                ),
            )
    sampled(bench, label, description, batch)


def sampled(bench: Bench, label: str, description: dict[str, Any], batch: int) -> None:
    """The whole step with its Poisson sample of a larger data set: what a run costs."""
    device = bench.clock.device
    count = 20 * batch
    if models.example(description, 1).numel() * count > 2e8:
        return
    x, y = rows_for(description, count, device)
    bench.case(
        label,
        batch,
        "privaware, Poisson of 20 x",
        "captured" if device == "cuda" else "eager",
        lambda: private(
            [built(description, device)],
            x,
            y,
            device=device,
            captured=device == "cuda",
            sampler=Poisson(rate=batch / count),
        ),
    )


def population(bench: Bench, label: str, name: str, batch: int, count: int) -> None:
    device = bench.clock.device
    description = models.named()[name].description
    x, y = rows_for(description, batch, device)
    for precision in ("float32", "tf32") if device == "cuda" else ("float32",):
        bench.case(
            label,
            batch,
            f"privaware x {count}" + ("" if precision == "float32" else f" {precision}"),
            "captured" if device == "cuda" else "eager",
            lambda precision=precision: private(
                [built(description, device) for _ in range(count)],
                x,
                y,
                device=device,
                captured=device == "cuda",
                precision=precision,
            ),
            count,
        )


def table_xvii(bench: Bench, batch: int) -> None:
    """The six models of Bao et al. Table XVII beside its printed ratios of private to plain time."""
    for name, (private_seconds, plain_seconds) in TABLE_XVII.items():
        print(f"{name}: printed ratio {private_seconds / plain_seconds:.1f}")
        one_model(bench, name.removeprefix("bao."), name, batch, rivals=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--quick", action="store_true", help="small batches, short timings, few cases"
    )
    parser.add_argument("--models", default="", help="single models whose label begins so")
    parser.add_argument("--batches", type=int, nargs="*", help="batches of the single models")
    parser.add_argument("--seconds", type=float, help="timing of each case")
    parser.add_argument(
        "--cpu-time", action="store_true", help="processor time, for a machine that is shared"
    )
    parser.add_argument("--json", type=Path, help="where to write the lines")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument(
        "--only", default="", help="parts: single, population, bao, vgg (all by default)"
    )
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    short_mantissas(False)
    seconds = options.seconds or (0.3 if options.quick else 1.0)
    bench = Bench(Clock(options.device, seconds, options.cpu_time))
    parts = options.only.split(",") if options.only else ["single", "population", "bao", "vgg"]
    print(
        f"{_machine(options.device)}; torch {torch.__version__}; {torch.get_num_threads()} threads"
    )
    with quiet():
        run_parts(bench, parts, options.quick, options.models, options.batches)
    if options.json:
        facts = {
            "machine": _machine(options.device),
            "torch": torch.__version__,
            "errors": bench.errors,
        }
        lines = [asdict(line) | {"model_steps_a_second": line.rate} for line in bench.lines]
        options.json.write_text(json.dumps(facts | {"lines": lines}, indent=1) + "\n")


def run_parts(
    bench: Bench, parts: list[str], quick_: bool, begin: str, batches: list[int] | None
) -> None:
    cuda = bench.clock.device == "cuda"
    rivals = _has_opacus()
    if "single" in parts:
        for label, name in SINGLE.items():
            if not label.startswith(begin):
                continue
            for batch in batches or ((256,) if quick_ else (256, 2048)):
                if quick_ and not cuda and label.startswith("CIFAR"):
                    batch = 32
                one_model(bench, label, name, batch, rivals)
    if "population" in parts:
        for label, counts in POPULATIONS.items():
            for count in counts[:2] if quick_ or not cuda else counts:
                population(bench, label, SINGLE[label], 256, count)
    if "bao" in parts and not quick_:
        table_xvii(bench, 256)
    if "vgg" in parts and (cuda or not quick_):
        one_model(bench, "VGG 128.8M", VGG, 256 if cuda else 16, rivals=False)


def _has_opacus() -> bool:
    import importlib.util

    return importlib.util.find_spec("opacus") is not None


def _machine(device: str) -> str:
    return (
        torch.cuda.get_device_name()
        if device == "cuda"
        else platform.processor() or platform.machine()
    )


if __name__ == "__main__":
    main()
