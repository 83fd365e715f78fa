"""A private step beside a plain one and beside Opacus, in one run: time, memory, model-steps a second.

    python -m benchmarks.descent --quick
    python -m benchmarks.descent --device cuda --json descent.json

Plain SGD runs in the same mode as the private step: eager against eager, captured against captured. Opacus is measured
where it is installed: hooks, ghost clipping and functorch, one model at a time. A case that fails prints its error and
the next goes on. TF32 is off unless the line says so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks._descent_steps import built, opacus, plain_captured, plain_eager, private, rows_for, allow_tf32
from benchmarks._descent_table import Bench, Clock
from privaware import models
from privaware.descent import Poisson

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

    def case(way: str, mode: str, make: Callable[[nn.Module], Any]) -> None:
        bench.case(label, batch, way, mode, lambda: make(built(description, device)))

    case("plain SGD", "eager", partial(plain_eager, x=x, y=y))
    if cuda:
        case("plain SGD", "captured", partial(plain_captured, x=x, y=y))
    for kind in ("hooks", "ghost", "functorch") if rivals else ():
        case(f"opacus {kind}", "eager", partial(opacus, kind, x=x, y=y))
    ours = partial(private, x=x, y=y, device=device)
    case("privaware", "eager", lambda module: ours([module]))
    for precision in ("float32", "tf32", "bf16") if cuda else ():
        way = "privaware" if precision == "float32" else f"privaware {precision}"
        step = partial(ours, captured=True, precision=precision)
        case(way, "captured", lambda module, step=step: step([module]))
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
    parser.add_argument("--quick", action="store_true", help="small batches, short timings, few cases")
    parser.add_argument("--models", default="", help="single models whose label begins so")
    parser.add_argument("--batches", type=int, nargs="*", help="batches of the single models")
    parser.add_argument("--seconds", type=float, help="timing of each case")
    parser.add_argument("--cpu-time", action="store_true", help="processor time, for a machine that is shared")
    parser.add_argument("--json", type=Path, help="where to write the lines")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--only", default="", help="parts: single, population, bao, vgg (all by default)")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    allow_tf32(False)
    seconds = options.seconds or (0.3 if options.quick else 1.0)
    bench = Bench(Clock(options.device, seconds, options.cpu_time))
    parts = options.only.split(",") if options.only else ["single", "population", "bao", "vgg"]
    print(f"{_machine(options.device)}; torch {torch.__version__}; {torch.get_num_threads()} threads")
    with quiet():
        run_parts(bench, parts, options.quick, options.models, options.batches)
    if options.json:
        facts = {"machine": _machine(options.device), "torch": torch.__version__, "errors": bench.errors}
        lines = [asdict(line) | {"model_steps_a_second": line.rate} for line in bench.lines]
        options.json.write_text(json.dumps(facts | {"lines": lines}, indent=1) + "\n")


def run_parts(bench: Bench, parts: list[str], quick_: bool, begin: str, batches: list[int] | None) -> None:
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
    return torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
