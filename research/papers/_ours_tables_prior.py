"""The prior for tables: pretraining of the network of the learner `amortised` on random tables; no data set is read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from privaware.bench import Result, Settings
from research.papers._resumed import train_resumed
from research.papers._runner import Bench

__all__ = ["pretrain"]


def pretrain(bench: Bench, settings: Settings) -> Result:
    """The network's weights after so many `steps` on one schedule, resumed from a checkpoint.

    Writes amortised.safetensors and amortised.json beside the store. The loss is that of the last batch of tables,
    below that of the shares of the classes.
    """
    import torch

    from privaware.bench._store import commit, machine
    from research.pretraining.table_network import TablePretraining, TableRecipe
    from research.pretraining.weights_files import save_table_network

    chosen = {name: value for name, value in settings.items() if name != "steps"}
    training = TablePretraining(TableRecipe(**chosen), bench.device)
    file = (bench.out or Path()) / "amortised.safetensors"
    loss = train_resumed(training, settings["steps"], file, bench)
    facts = {
        "command": f"privaware reproduce ours/tables_prior/weights, {dict(settings)}",
        "seed": str(training.recipe.seed),
        "commit": commit(),
        "recipe": json.dumps(asdict(training.recipe)),
        "steps": str(training.step_number),
        "tables": str(training.tables),
        "machine": machine(bench.device),
        "torch": torch.__version__,
    }
    save_table_network(file, training.network, facts)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    note = {**facts, "recipe": asdict(training.recipe), "sha256": digest}
    file.with_suffix(".json").write_text(json.dumps(note, indent=2) + "\n")
    return {"steps": training.step_number, "tables": training.tables, "loss": loss, "sha256": digest}
