"""The studies of Bao et al. and of Tramer and Boneh, cell by cell, each resumable.

    python -m benchmarks.studies prices                          # computes the noises, here
    python -m benchmarks.studies run --device cuda --out OUT --limit 500
    python -m benchmarks.studies run --only table3 tables14_15 --out OUT
    python -m benchmarks.studies page --out OUT                  # writes docs/results/studies.md

Cells are in the order of cheapness and weight. A cell whose result is in OUT is left alone; within a cell finished
trainings come from OUT/store.jsonl. No cell is begun after `--limit` seconds. `--quick` takes fewer places and seeds.
Everything is an evaluation on public benchmark rows: thousands of models are trained and scored on them.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import _studies_bao as bao
from benchmarks import _studies_small as small
from benchmarks import _studies_tramer_boneh as boneh
from benchmarks._studies import Bench, Cell, Noises
from privaware.errors import PrivawareError
from privaware.study._sweep import Store

TB, FASHION = "Tramer and Boneh", "fashion_mnist"
CELLS: dict[str, tuple[str, Cell]] = {
    "lemma": ("Lemma 1 and Corollary 1", small.lemma),
    "tb_figure6": (f"{TB}, Figure 6: noise by sampling rate", boneh.figure6),
    "table3": ("Table III and Figure 5: noise against input size", small.table3),
    "tables14_15": ("Tables XIV and XV: regression on Medical Cost", small.tables14_15),
    "table13": ("Table XIII: RNNs on SMS spam", small.table13),
    "table1_fcn_mnist": ("Table I: FCN on mnist", partial(bao.table1, kind="FCN", data="mnist")),
    "table9": ("Table IX: architectures with frozen layers", bao.table9),
    "figure7_mnist": ("Figure 7: crossover on mnist", partial(bao.figure7, data="mnist")),
    "figure7_fashion_mnist": (f"Figure 7: crossover on {FASHION}", partial(bao.figure7, data=FASHION)),
    "figure6": ("Figure 6: the sample-size law", bao.figure6),
    "figure8": ("Figure 8: logistic regression, FCN and CNN", bao.figure8),
    "table1_fcn_fashion_mnist": (f"Table I: FCN on {FASHION}", partial(bao.table1, kind="FCN", data=FASHION)),
    "standard_cnn": ("The standard CNN against the aware FCN at 2.11", bao.standard_cnn),
    "table7": ("Table VII: complex and simple by random weights training", bao.table7),
    "table6": ("Table VI: random weights training, FCN and CNN", bao.table6),
    "figure10": ("Figure 10: crossover of random weights training", bao.figure10),
    "table4": ("Table IV: LeNet-5 against both workflows", bao.table4),
    "table1_cnn_mnist": ("Table I: CNN on mnist", partial(bao.table1, kind="CNN", data="mnist")),
    "clipping": ("Appendix E: clipping without noise", bao.clipping),
    "figure1": ("Figure 1: accuracy by parameters", partial(bao.sizes, data="mnist", name="figure1", deep=False)),
    "figure12": ("Figure 12: width and depth", partial(bao.sizes, data="svhn", name="figure12", deep=True)),
    "table1_fcn_svhn": ("Table I: FCN on svhn", partial(bao.table1, kind="FCN", data="svhn")),
    "table1_fcn_cifar10": ("Table I: FCN on cifar10", partial(bao.table1, kind="FCN", data="cifar10")),
    "figure7_svhn": ("Figure 7: crossover on svhn", partial(bao.figure7, data="svhn")),
    "figure7_cifar10": ("Figure 7: crossover on cifar10", partial(bao.figure7, data="cifar10")),
    "table6_rnn": ("Table VI: random weights training of the RNN", small.table6_rnn),
    "tb_convergence_mnist": (f"{TB}, Figure 11: mnist", partial(boneh.convergence, name="mnist")),
    "tb_convergence_fashion_mnist": (f"{TB}, Figure 11: {FASHION}", partial(boneh.convergence, name=FASHION)),
    "tb_figure7_mnist": (f"{TB}, Figure 7: mnist", partial(boneh.figure7, name="mnist")),
    "tb_figure7_fashion_mnist": (f"{TB}, Figure 7: {FASHION}", partial(boneh.figure7, name=FASHION)),
    "table1_cnn_svhn": ("Table I: CNN on svhn", partial(bao.table1, kind="CNN", data="svhn")),
    "table1_cnn_cifar10": ("Table I: CNN on cifar10", partial(bao.table1, kind="CNN", data="cifar10")),
    "figure9": ("Figure 9: sensitivity to the learning rate", bao.figure9),
    "tb_figure8_mnist": (f"{TB}, Figure 8: mnist", partial(boneh.figure8, name="mnist")),
    "tb_figure8_fashion_mnist": (f"{TB}, Figure 8: {FASHION}", partial(boneh.figure8, name=FASHION)),
    "tb_convergence_cifar10": (f"{TB}, Figure 3: cifar10", partial(boneh.convergence, name="cifar10")),
    "tb_figure7_cifar10": (f"{TB}, Figure 7: cifar10", partial(boneh.figure7, name="cifar10")),
    "tb_figure8_cifar10": (f"{TB}, Figure 8: cifar10", partial(boneh.figure8, name="cifar10")),
}  # fmt: skip


def machine(device: str) -> str:
    if device == "cpu":
        return f"one core of {platform.machine()}"
    import torch

    return str(torch.cuda.get_device_name())


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )
    return done.stdout.strip() or "not known on that machine"


def run(given: argparse.Namespace) -> None:
    bench = Bench(given.device, Store(given.out / "store.jsonl"), Noises(), quick=given.quick)
    began = time.monotonic()
    for name, (title, cell) in CELLS.items():
        place = given.out / f"{name}.json"
        if place.exists() or (given.only and name not in given.only):
            continue
        if time.monotonic() - began > given.limit:
            print(f"the limit is reached before {name}", flush=True)
            return
        print(f"{name}: {title}", flush=True)
        start = time.monotonic()
        try:
            made: dict[str, Any] = cell(bench)
        except PrivawareError as problem:  # files that this machine lacks
            print(f"{name} is left out: {problem}", flush=True)
            continue
        told = " ".join(["--quick"] * given.quick)
        facts = {
            "cell": name,
            "command": f"python -m benchmarks.studies run --only {name} --device {given.device} {told}".strip(),
            "commit": commit(),
            "machine": machine(given.device),
            "date": datetime.now(UTC).date().isoformat(),
            "seconds": round(time.monotonic() - start, 1),
            "seeds": f"{bench.seeds.start} to {bench.seeds.stop - 1}",
            "quick": given.quick,
        }
        given.out.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps({**facts, **made}, indent=1, allow_nan=False))
        print(f"{name}: {facts['seconds']} s", flush=True)


def prices() -> None:
    bench = Bench("cpu", Store(Path("none")), Noises(compute=True), priced_only=True)
    for quick in (True, False):
        bench.quick = quick
        for name, (_, cell) in CELLS.items():
            print(name, flush=True)
            if name not in ("lemma",):
                cell(bench)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("what", choices=("prices", "run", "page"))
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--out", type=Path, default=Path("docs/results/studies"))
    arguments.add_argument("--only", nargs="*", choices=list(CELLS))
    arguments.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    arguments.add_argument("--quick", action="store_true", help="fewer places and seeds")
    given = arguments.parse_args()
    if given.what == "prices":
        prices()
    elif given.what == "run":
        run(given)
    else:
        from benchmarks._studies_page import write

        write({name: title for name, (title, _) in CELLS.items()}, given.out)


if __name__ == "__main__":
    main()
