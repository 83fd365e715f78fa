"""`fit` on a cluster: a folder of Parquet files gives the model of one process, also when a machine is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privaware.data import _large, _persons, read
from privaware.errors import WrongInput
from privaware.workflow.fit import Fit, fit
from privaware.workflow.run import source as _source
from privaware.workflow.select import select
from tests.parts import same_tensors
from tests.workflow.run.test_cluster import Machines

PERSONS: dict[str, Any] = {"unit": "age", "cap": 3}
"""Persons of about twenty rows each, in all files."""
FAST: dict[str, Any] = {"learner": "boosted", "settings": {"trees": 4, "steps": 3}}


def people(rows: int = 1500) -> pd.DataFrame:
    draw = np.random.default_rng(1)
    amount, town = draw.gamma(2.0, 40.0, rows), draw.choice(["Ulm", "Bonn", "Kiel"], rows)
    amount[::11] = np.nan
    buys = np.where((np.nan_to_num(amount) > 60) ^ (town == "Ulm"), "yes", "no")
    return pd.DataFrame({"amount": amount, "town": town, "age": draw.integers(18, 90, rows), "buys": buys})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three files, of several row groups each."""
    monkeypatch.setattr(_large, "PIECE", 100)
    (tmp_path / "people").mkdir()
    for at, part in enumerate(np.array_split(np.arange(1500), 3)):
        people().iloc[part].to_parquet(tmp_path / "people" / f"part-{at}.parquet", row_group_size=90)
    return tmp_path / "people"


def fitted(folder: Path, name: str, **options: Any) -> Fit:
    facts = {"target": "buys", "epsilon": 1.0, "seed": 7, "ledger": folder.parent / f"{name}.ledger", **FAST}
    return fit(folder, out=folder.parent / name, say=lambda sentence: None, **{**facts, **options})


def on(monkeypatch: pytest.MonkeyPatch, *losses: int) -> Machines:
    pool = Machines(3, losses)
    monkeypatch.setattr(_source, "RayPool", lambda address: pool)
    return pool


@pytest.mark.parametrize(("lost", "options"), [((2, 17), {}), ((8, 14), PERSONS)], ids=["rows", "persons"])
def test_fit_on_a_lossy_cluster_equals_fit_in_one_process(
    folder: Path, lost: tuple[int, int], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With persons, workers are lost while slices are searched, and when the rows that count are first read."""
    monkeypatch.setattr(_persons, "MAX_ROWS_PER_SLICE", 600)
    here = fitted(folder, "here", **options)
    pool = on(monkeypatch, *lost)
    there = fitted(folder, "there", ray="auto", **options)
    assert pool.lost == 2
    assert here.model is not None
    assert there.model is not None
    assert same_tensors(here.model.tensors, there.model.tensors)
    assert here.model.schema == there.model.schema
    assert (here.event, here.epsilon, here.plan) == (there.event, there.epsilon, there.plan)


@pytest.mark.parametrize("method", ["cfs_greedy", "cfs_ga", "top", "worth"])
def test_columns_are_selected_on_a_cluster_as_by_one_process(
    method: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = {"target": "buys", "method": method, "epsilon": 2.0, "seed": 7, "limit": 9.0, **PERSONS}
    here = select(folder, **call)
    pool = on(monkeypatch, 3)
    there = select(folder, ray="auto", **call)
    assert pool.lost == 1
    assert (here.columns, here.event, here.plan) == (there.columns, there.event, there.plan)
    assert here.columns


def test_score_on_a_lossy_cluster_equals_score_in_one_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = fitted(folder, "here", score_epsilon=0.5)
    pool = on(monkeypatch, 8, 14)
    there = fitted(folder, "there", ray="auto", score_epsilon=0.5)
    assert pool.lost == 2
    assert here.score == there.score
    assert here.score is not None


def test_folder_of_files_is_the_table_of_all_their_rows(folder: Path) -> None:
    raw = read(folder)
    assert raw.frame is not None
    pd.testing.assert_frame_equal(raw.frame, read(people()).frame, check_dtype=False)
    table = _large.LargeTable(folder)
    assert (table.rows, table.width, len(table.pieces())) == (1500, 4, 9)


def test_a_file_with_other_columns_is_named(folder: Path) -> None:
    people().rename(columns={"age": "years"}).to_parquet(folder / "part-9.parquet")
    with pytest.raises(WrongInput, match=r"'part-9\.parquet' differs from 'part-0\.parquet'"):
        _large.LargeTable(folder).rows  # noqa: B018


def test_what_needs_all_rows_together_is_refused_with_a_cluster(folder: Path) -> None:
    with pytest.raises(WrongInput, match="expected a Parquet table"):
        fitted(folder, "refused", ray="auto", accept_schema=True)
    assert not (folder.parent / "refused.ledger").exists()


def test_other_files_are_refused_with_a_cluster(tmp_path: Path) -> None:
    people(50).to_csv(tmp_path / "people.csv")
    with pytest.raises(WrongInput, match="expected a Parquet table"):
        fitted(tmp_path / "people.csv", "refused", ray="auto")


def test_a_cluster_that_does_not_answer_costs_nothing(folder: Path) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    with pytest.raises(WrongInput, match="no Ray cluster answers"):
        fitted(folder, "nobody", ray="127.0.0.1:1")
    assert not (folder.parent / "nobody.ledger").exists()


PROGRAM = """
import json, sys, threading, time
from pathlib import Path
import numpy as np
import ray
from ray.cluster_utils import Cluster
from privaware.workflow.run import process_pool
from privaware.workflow.fit import fit

def fitted(name, **options):
    settings, unit = {"trees": 60, "steps": 20}, json.loads(sys.argv[1])
    return fit("people", target="buys", epsilon=1.0, seed=7, learner="boosted", settings=settings, out=name,
               ledger=f"{name}.ledger", say=lambda sentence: None, **options, **unit)

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
second = cluster.add_node(num_cpus=1)
asked, lost, ask = [], [], process_pool.RayPool.ask

def counted(pool, questions):
    asked.append(len(questions))
    if len(asked) == 40:
        cluster.remove_node(second, allow_graceful=False)
    for worker, answer in ask(pool, questions):
        lost.extend([worker] if answer is None else [])
        yield worker, answer

process_pool.RayPool.ask = counted
there = fitted("there", ray=cluster.address)
ray.shutdown()
cluster.shutdown()
here = fitted("here")
tensors = [(here.model.tensors[name], there.model.tensors[name]) for name in here.model.tensors]
result = {"same": all(np.array_equal(*pair) for pair in tensors), "names": len(tensors), "lost": len(lost),
          "first": asked[0], "last": asked[-1], "price": here.epsilon == there.epsilon}
Path("result.json").write_text(json.dumps(result))
"""


@pytest.mark.slow
@pytest.mark.parametrize("unit", [{}, PERSONS], ids=["rows", "persons"])
def test_fit_on_two_ray_nodes_survives_the_loss_of_one(unit: dict[str, Any], folder: Path) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    place = folder.parent
    (place / "drive.py").write_text(textwrap.dedent(PROGRAM))
    env = {**os.environ, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "OMP_NUM_THREADS": "1"}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [env.get("PYTHONPATH")])])
    command = [sys.executable, "drive.py", json.dumps(unit)]
    process = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr[-2000:]
    result = json.loads((place / "result.json").read_text())
    assert result == {"same": True, "names": result["names"], "lost": 1, "first": 2, "last": 1, "price": True}
