"""The verbs that train, with `--device cuda`: the same charges, models and predictions, made on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.people import SPACE, Run

pytest.importorskip("vl_convert", reason="the report of a model needs vl-convert-python")
pytestmark = pytest.mark.cuda

SHORT = ("--set", "steps=4", "--set", "batch=100")
CALLS: dict[str, tuple[Any, ...]] = {
    "fit dpsgd": ("fit", "--learner", "dpsgd", *SHORT, "--epsilon", 1),
    "fit dp_adam": ("fit", "--learner", "dp_adam", *SHORT, "--epsilon", 1),
    "search rs": ("search", "--space", "space.toml", "--strategy", "rs", *SHORT, "--epsilon", 4),
    "search paas": ("search", "--space", "space.toml", "--strategy", "paas", "--trials", 3, *SHORT, "--epsilon", 4),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_verb_that_trains_uses_the_gpu(run: Run, people: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "space.toml").write_text(SPACE)
    verb, *words = CALLS[name]
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    shared = ("--schema", "people.toml", "--device", "cuda", "--out", "model", "--json")
    result = run(verb, people, *words, *shared)
    assert result.code == 0, result.err
    assert result.json["certified"]
    assert torch.cuda.max_memory_allocated() > before
    assert run("verify", "model", "--ledger", f"{people}.ledger", "--json").json["valid"]
    assert run("predict", "model", people, "--device", "cuda", "--out", "p.csv", "--json").json["rows"] == 300


def test_a_crossover_uses_the_gpu(run: Run, people: Path) -> None:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    words = ("--simple", "majority", "--complex", "dpsgd:steps=5", "--epsilons", "0.3,1")
    shared = ("--repeats", 2, "--schema", "people.toml", "--device", "cuda", "--out", "model")
    result = run("crossover", people, *words, *shared, "--json")
    assert result.code == 0, result.err
    assert torch.cuda.max_memory_allocated() > before
