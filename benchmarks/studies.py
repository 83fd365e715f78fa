"""The studies of Bao et al. and of Tramer and Boneh, cell by cell, each resumable.

    python -m benchmarks.studies prices                          # computes the noises, here
    python -m benchmarks.studies list                            # cells, whether they are done, estimated GPU seconds
    python -m benchmarks.studies run --device cuda --limit 500 --tar OUT/studies.tar
    python -m benchmarks.studies run --only table3 tables14_15
    python -m benchmarks.studies page                            # writes docs/results/studies.md

Cells are in the order of weight. A cell whose result is in `--out` is left alone, unless that result is a quick or
partial one and this run is not; within a cell finished trainings come from the store. No cell is begun after `--limit`
seconds. A cell that fails is told and the others go on. `--tar` packs results and store into one file after each cell;
unpack it in docs/results/studies. `--quick` takes fewer places and seeds. Everything is an evaluation on public
benchmark rows: thousands of models are trained and scored on them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import subprocess
import sys
import tarfile
import time
import traceback
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import _studies_bao_figures as figures
from benchmarks import _studies_bao_tables as tables
from benchmarks import _studies_small as small
from benchmarks import _studies_tramer_boneh as boneh
from benchmarks._studies import Bench, Cell, Noises
from privaware.studies._sweep import Store

TB, FASHION = "Tramer and Boneh", "fashion_mnist"
CELLS: dict[str, tuple[str, Cell]] = {
    "lemma": ("Lemma 1 and Corollary 1", small.lemma),
    "tb_figure6": (f"{TB}, Figure 6: noise by sampling rate", boneh.figure6),
    "table3": ("Table III and Figure 5: noise against input size", small.table3),
    "tables14_15": ("Tables XIV and XV: regression on Medical Cost", small.tables14_15),
    "table1_fcn_mnist": ("Table I: FCN on mnist", partial(tables.table1, kind="FCN", data="mnist")),
    "table1_fcn_fashion_mnist": (f"Table I: FCN on {FASHION}", partial(tables.table1, kind="FCN", data=FASHION)),
    "table1_fcn_svhn": ("Table I: FCN on svhn", partial(tables.table1, kind="FCN", data="svhn")),
    "table1_fcn_cifar10": ("Table I: FCN on cifar10", partial(tables.table1, kind="FCN", data="cifar10")),
    "table1_cnn_mnist": ("Table I: CNN on mnist", partial(tables.table1, kind="CNN", data="mnist")),
    "table1_cnn_svhn": ("Table I: CNN on svhn", partial(tables.table1, kind="CNN", data="svhn")),
    "table1_cnn_cifar10": ("Table I: CNN on cifar10", partial(tables.table1, kind="CNN", data="cifar10")),
    "standard_cnn": ("The standard CNN against the aware FCN at 2.11", tables.standard_cnn),
    "table9": ("Table IX: architectures with frozen layers", tables.table9),
    "table7": ("Table VII: complex and simple by random weights training", tables.table7),
    "figure7_mnist": ("Figure 7: crossover on mnist", partial(figures.figure7, data="mnist")),
    "figure7_fashion_mnist": (f"Figure 7: crossover on {FASHION}", partial(figures.figure7, data=FASHION)),
    "figure7_svhn": ("Figure 7: crossover on svhn", partial(figures.figure7, data="svhn")),
    "figure7_cifar10": ("Figure 7: crossover on cifar10", partial(figures.figure7, data="cifar10")),
    "figure8": ("Figure 8: logistic regression, FCN and CNN", figures.figure8),
    "figure1": ("Figure 1: accuracy by parameters", partial(figures.sizes, data="mnist", name="figure1", deep=False)),
    "figure12": ("Figure 12: width and depth", partial(figures.sizes, data="svhn", name="figure12", deep=True)),
    "clipping": ("Appendix E: clipping without noise", tables.clipping),
    "figure6": ("Figure 6: the sample-size law", figures.figure6),
    "table6": ("Table VI: random weights training, FCN and CNN", tables.table6),
    "table4": ("Table IV: LeNet-5 against both workflows", tables.table4),
    "figure10": ("Figure 10: crossover of random weights training", figures.figure10),
    "figure9": ("Figure 9: sensitivity to the learning rate", figures.figure9),
    "table13": ("Table XIII: RNNs on SMS spam", small.table13),
    "table6_rnn": ("Table VI: random weights training of the RNN", partial(small.table6_rnn, printed=0.391)),
    "table6_rnn_clear": ("Table VI: the same without noise", partial(small.table6_rnn, printed=1.47e11)),
    "tb_convergence_mnist": (f"{TB}, Figure 11: mnist", partial(boneh.convergence, name="mnist")),
    "tb_convergence_fashion_mnist": (f"{TB}, Figure 11: {FASHION}", partial(boneh.convergence, name=FASHION)),
    "tb_figure7_mnist": (f"{TB}, Figure 7: mnist", partial(boneh.figure7, name="mnist")),
    "tb_figure7_fashion_mnist": (f"{TB}, Figure 7: {FASHION}", partial(boneh.figure7, name=FASHION)),
    "tb_convergence_cifar10": (f"{TB}, Figure 3: cifar10", partial(boneh.convergence, name="cifar10")),
    "tb_figure7_cifar10": (f"{TB}, Figure 7: cifar10", partial(boneh.figure7, name="cifar10")),
}


def machine(device: str) -> str:
    if device == "cpu":
        return f"one core of {platform.machine()}"
    import torch

    return str(torch.cuda.get_device_name())


def commit() -> str:
    told = ["git", "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(told, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    except (OSError, subprocess.CalledProcessError):
        return "not known on that machine"
    return done.stdout.strip()


def state(place: Path) -> str:
    """Whether a cell has a result: "done", "quick" or "partial" for less than the whole, "" for none."""
    if not place.exists():
        return ""
    made = json.loads(place.read_text())
    return "quick" if made["quick"] else "partial" if made.get("partial") else "done"


def wanted(place: Path, given: argparse.Namespace) -> bool:
    """Less than the whole is done again where more can be done."""
    known = state(place)
    if given.quick:
        return not known
    return known in ("", "quick") or (known == "partial" and given.device != "cpu")


def run(given: argparse.Namespace) -> int:
    """All cells that are wanted, one after another; 1 if any of them failed."""
    given.out.mkdir(parents=True, exist_ok=True)
    store = Store(given.store or given.out / "store.jsonl")
    bench = Bench(given.device, store, Noises(), quick=given.quick)
    began, failed = time.monotonic(), []
    for name in CELLS:
        place = given.out / f"{name}.json"
        if (given.only and name not in given.only) or not wanted(place, given):
            continue
        if time.monotonic() - began > given.limit:
            print(f"the limit is reached before {name}", flush=True)
            break
        try:
            made = one(name, bench, given)
            place.write_text(json.dumps(made, indent=1, allow_nan=False))
        except Exception as problem:  # whatever it is, the other cells do not hang on it
            failed.append(name)
            print(f"{name} failed: {type(problem).__name__}: {problem}", flush=True)
            traceback.print_exc()
        gc.collect()
        if given.tar:
            pack(given.tar, given.out, store.path)
    if failed:
        print(f"failed: {' '.join(failed)}", flush=True)
    return 1 if failed else 0


def one(name: str, bench: Bench, given: argparse.Namespace) -> dict[str, Any]:
    """A cell's result with where it comes from."""
    title, cell = CELLS[name]
    print(f"{name}: {title}", flush=True)
    start = time.monotonic()
    made = cell(bench)
    told = " ".join(["--quick"] * given.quick)
    facts = {
        "cell": name,
        "command": f"python -m benchmarks.studies run --only {name} --device {given.device} {told}".strip(),
        "commit": given.commit or commit(),
        "machine": machine(given.device),
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(time.monotonic() - start, 1),
        "seeds": f"{bench.seeds.start} to {bench.seeds.stop - 1}",
        "quick": given.quick,
        "precision": "float32" if given.device == "cpu" else "tf32",
    }
    print(f"{name}: {facts['seconds']} s", flush=True)
    for line in made.get("words", []):
        print(f"  {line}", flush=True)
    return {**facts, **made}


def pack(tar: Path, out: Path, store: Path) -> None:
    """Results and store as one file, whole at any time."""
    beside = tar.with_name(tar.name + ".part")
    with tarfile.open(beside, "w:gz" if tar.suffix == ".gz" else "w") as file:
        for path in [*sorted(out.glob("*.json")), store]:
            if path.exists():
                file.add(path, arcname=path.name)
    os.replace(beside, tar)


def dry(name: str, noises: Noises, *, quick: bool = False, device: str = "cuda") -> Bench:
    """The cell run without training: what it would ask for."""
    bench = Bench(device, Store(Path("none")), noises, dry=True, quick=quick)
    CELLS[name][1](bench)
    return bench


def prices() -> None:
    noises = Noises(compute=True)
    for quick in (True, False):
        for name in CELLS:
            print(name, flush=True)
            if name != "lemma":
                dry(name, noises, quick=quick)


def show(given: argparse.Namespace) -> None:
    """Cells in their order, what is done of each, and about how long the whole takes on one H200."""
    from benchmarks._studies_seconds import seconds

    noises, left = Noises(), 0.0
    for name in CELLS:
        known = state(given.out / f"{name}.json")
        cost = 0.0 if name == "lemma" else seconds(dry(name, noises).asked)
        left += 0.0 if known == "done" else cost
        print(f"{name:30} {known or 'not run':8} {cost:6.0f} s")
    print(f"{'what is not done':39} {left:6.0f} s")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=("prices", "list", "run", "page"))
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--out", type=Path, default=Path("docs/results/studies"))
    arguments.add_argument("--store", type=Path, help="finished trainings; OUT/store.jsonl")
    arguments.add_argument("--tar", type=Path, help="results and store in one file, after each cell")
    arguments.add_argument("--commit", help="what the results are of, where there is no git")
    arguments.add_argument("--only", nargs="*", choices=list(CELLS))
    arguments.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    arguments.add_argument("--quick", action="store_true", help="fewer places and seeds")
    given = arguments.parse_args()
    if given.what == "prices":
        prices()
    elif given.what == "list":
        show(given)
    elif given.what == "run":
        sys.exit(run(given))
    else:
        from benchmarks._studies_page import write

        write({name: title for name, (title, _) in CELLS.items()}, given.out)


if __name__ == "__main__":
    main()
