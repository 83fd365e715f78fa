"""Tramer and Boneh: stored cells belong to items, noise costs what the paper says, trainings are the package's own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from privaware.bench._store import Store, cell_key
from privaware.data import Data
from privaware.errors import Refused
from privaware.events import Gaussian
from privaware.noise import Rng
from privaware.schema import Schema
from research import papers
from research.papers import _tramer_boneh_budgets
from research.papers import _tramer_boneh_train as train
from research.papers._prices import PaperPrices
from research.papers._runner import Bench
from research.papers._tramer_boneh_budgets import within_budgets
from research.papers._tramer_boneh_prices import bisected_noise, classic
from research.papers._tramer_boneh_runs import points

RESULTS = Path(__file__).parents[3] / "docs" / "results"
SCATTER = "tramer_boneh_scatter"


def stored(page: str) -> dict[str, Any]:
    return Store(RESULTS / page / "cells.jsonl").read()


def test_every_stored_cell_is_a_run_of_its_item() -> None:
    cells = stored(SCATTER)
    assert len(cells) >= 3255
    items = {item.id: item for item in papers.matching("tramer_boneh")}
    runs = {cell_key(item.id, settings) for item in items.values() for settings in item.runs}
    assert {cell.item for key, cell in cells.items() if key not in runs} <= {"tramer_boneh/scattering"}


def test_points_of_table_3_that_are_left_can_be_run() -> None:
    """On CIFAR-10 from pixels; their noise is looked up, not computed."""
    item, cells = papers.find("tramer_boneh/table3/pixels/cifar10"), stored(SCATTER)
    left = [settings for settings in item.runs if cell_key(item.id, settings) not in cells]
    assert len(item.runs) == 72
    assert len(left) <= 6
    known = PaperPrices("tramer_boneh").known
    assert all(f"table12 50000 {point['batch']} {point['epochs']} 0" in known for point in left)


def test_stored_noise_costs_what_the_paper_says() -> None:
    known = {key: noise for key, noise in PaperPrices("tramer_boneh").known.items() if key.startswith("table12")}
    assert len(known) == 108
    for key in ("60000 4096 40 8", "60000 512 15 0", "50000 8192 60 8", "50000 16384 120 6"):
        count, batch, epochs, norm = map(int, key.split())
        facts = {"rate": batch / count, "steps": epochs * (count // batch), "norm": norm}
        assert 2.99 <= classic(known[f"table12 {key}"], **facts) <= 3
    facts = {"rate": 4096 / 60_000, "steps": 40 * (60_000 // 4096), "norm": 8}
    again = bisected_noise(lambda noise: classic(noise, **facts))
    assert again == pytest.approx(known["table12 60000 4096 40 8"], rel=1e-9)


def test_private_statistics_are_those_of_normalise() -> None:
    from privaware.preprocessing.normalise import Normalise

    x = np.random.default_rng(5).random((50, 3, 4, 4), np.float32)
    schema = Schema(classes=("a", "b"), rows=50, form="image", shape=(3, 4, 4))
    data = Data(schema=schema, x=x, y=np.zeros(50, np.int64))
    expected = Normalise(means=0.5, squares=0.3).run(data, noise=2.0, rng=Rng(seed=6))
    mean, variance, level = train.statistics(torch.from_numpy(x), (0.5, 0.3), 2.0, Rng(seed=6))
    deviation = variance.clamp_min(level).sqrt()
    # Normalise clips to a little less than its norms, and a release is rounded to a lattice.
    assert mean[:, 0, 0].tolist() == pytest.approx(expected.mean, rel=1e-4)
    assert deviation[:, 0, 0].tolist() == pytest.approx(expected.deviation, rel=1e-4)
    assert level == pytest.approx(2.0 * 0.3 / 50)


def test_shuffled_batches_visit_every_row_once_and_have_no_price() -> None:
    sampler = train.Shuffled(4, 12, seed=1)
    epoch = np.concatenate([sampler.draw(Rng(seed=2), 12) for _ in range(3)])
    assert sorted(epoch) == list(range(12))
    with pytest.raises(Refused, match="no such guarantee"):
        sampler.event(Gaussian(noise=1.0))


def test_shuffled_batches_are_those_of_every_model() -> None:
    sampler = train.Shuffled(4, 12, seed=1, models=2)
    batches = [sampler.draw(Rng(seed=2), 12) for _ in range(6)]
    for first, second in zip(batches[::2], batches[1::2], strict=True):
        assert np.array_equal(first, second)
        assert not np.shares_memory(first, second)  # the caller shuffles its batch
    assert sorted(np.concatenate(batches[::2])) == list(range(12))


@pytest.fixture
def small_images(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sixty images whose class is their brightness, in place of MNIST."""
    generator = torch.Generator().manual_seed(3)
    y = torch.arange(60) % 10
    x = 0.02 * torch.rand(60, 1, 28, 28, generator=generator) + y[:, None, None, None] / 10

    def loaded(data: str, device: str, first: int, standardised: bool) -> train.Examples:
        return train.Examples(x, y, x, y)

    train._scattering.cache_clear()
    monkeypatch.setattr(train, "_loaded", loaded)
    yield
    train._scattering.cache_clear()


def test_every_point_of_a_population_has_its_own_rate(small_images: None) -> None:
    shared = {"batch": 60, "epochs": 20, "kind": "groups 9", "noise": 0.0}
    cells = [{**shared, "base_lr": rate} for rate in (1e-9, 20.0, 40.0)]
    still, *moved = [result["score"] for result in points(Bench("test"), cells, data="mnist", head="linear")]
    alone = [
        result["score"] for cell in cells[1:] for result in points(Bench("test"), [cell], data="mnist", head="linear")
    ]
    assert moved == alone
    assert min(moved) > still + 0.2


def test_shuffled_training_without_noise_learns_and_has_a_curve(small_images: None) -> None:
    setting = train.Setting(
        data="mnist", head="linear", batch=20, base_lr=20.0, epochs=20, noise=0.0, shuffled=True, every=5
    )
    [result] = train.train([setting], "cpu")
    assert [epoch for epoch, _ in result["curve"]] == [5.0, 10.0, 15.0, 20.0]
    assert result["best"] == max(score for _, score in result["curve"])
    assert result["score"] > 0.2


def test_interrupted_budgets_go_on(small_images: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"batches": [20], "epochs": [2], "kinds": ["none"], "rates": [0.5, 1.0], "seeds": 2}
    settings |= {"first": 60, "noise": 1.0}
    calls: list[int] = []

    def interrupted(population: Any, device: str) -> Any:
        calls.append(len(population))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return train.train(population, device)

    bench = Bench("test", out=tmp_path)
    monkeypatch.setattr(_tramer_boneh_budgets, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        within_budgets(bench, settings, data="mnist", head="linear")
    resumed = within_budgets(bench, settings, data="mnist", head="linear")
    assert calls[0] == 2
    assert calls[1:] == [1] * (len(calls) - 1)  # the grid is not trained again
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(_tramer_boneh_budgets, "train", train.train)
    assert resumed == within_budgets(Bench("test"), settings, data="mnist", head="linear")


BLOCKED = """
import json, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("dp_accounting", "opendp", "altair", "vl_convert", "jinja2"):
            raise ImportError(name)
sys.meta_path.insert(0, Missing())
from collections.abc import Iterator
from pathlib import Path
from research import papers
from research.papers._runner import Bench
bench = Bench("tramer_boneh")
item = papers.find("tramer_boneh/table3/pixels/cifar10")
from research.papers._tramer_boneh_runs import prepared
print(json.dumps([prepared(bench, "cifar10", "pixels", point).noise for point in item.runs]))
"""


def test_noise_is_looked_up_on_a_machine_without_accountants() -> None:
    answer = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True)
    assert len(json.loads(answer.stdout)) == 72
