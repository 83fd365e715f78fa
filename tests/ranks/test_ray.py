"""`--ray` trains a network by processes of a Ray cluster, which give the model of one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from privaware.errors import WrongInput
from privaware.workflow.fit import fit
from privaware.workflow.run import on_ranks
from tests.ranks import processes

PROGRAM = """
import json
from pathlib import Path
import numpy as np
import ray
from ray.cluster_utils import Cluster
from privaware.workflow.fit import fit
from tests.ranks import processes

def fitted(name, **options):
    settings = {"steps": 10, "architecture": {"name": "fcn", "hidden": [4]}}
    return fit("wisconsin", epsilon=1.0, seed=7, learner="dpsgd", settings=settings, out=name,
               ledger=f"{name}.ledger", say=lambda sentence: None, **options)

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
there = fitted("there", ray=cluster.address)
ray.shutdown()
cluster.shutdown()
with processes.leading_alone():
    here = fitted("here")
tensors = [(here.model.tensors[name], there.model.tensors[name]) for name in here.model.tensors]
Path("result.json").write_text(json.dumps([bool(np.array_equal(*pair)) for pair in tensors]))
"""

WITHOUT_CPU = """
import json
from pathlib import Path
from ray.cluster_utils import Cluster
from privaware.errors import WrongInput
from privaware.workflow.run.on_ranks import ranks_on_ray

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "num_gpus": 2, "include_dashboard": False})
try:
    with ranks_on_ray(cluster.address, "cuda"):
        problem = ""
except WrongInput as wrong:
    problem = str(wrong)
Path("result.json").write_text(json.dumps(problem))
"""


def driven(program: str, folder: Path) -> Any:
    """What a program with a Ray cluster of its own writes to result.json."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    (folder / "drive.py").write_text(program)
    env = {
        **os.environ,
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(processes.ROOT),
    }
    command = [sys.executable, "drive.py"]
    process = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    return json.loads((folder / "result.json").read_text())


@pytest.mark.slow
def test_fit_of_a_network_on_ray_is_that_of_one_process(tmp_path: Path) -> None:
    assert driven(PROGRAM, tmp_path) == [True] * 4


@pytest.mark.slow
def test_gpus_of_ray_need_no_free_cpu(tmp_path: Path) -> None:
    """The cluster pretends to have GPUs, which the ranks notice before a charge."""
    if torch.cuda.is_available():
        pytest.skip("Ray would find the GPU")
    assert "expected a GPU for rank 1, got none" in driven(WITHOUT_CPU, tmp_path)


def test_a_full_cluster_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def available_resources(self) -> dict[str, Any]:
            return {}

    monkeypatch.setattr(on_ranks, "connected", lambda address: Full())
    ledger = tmp_path / "rows.ledger"
    with pytest.raises(WrongInput, match="expected a free CPU on the Ray cluster"):
        fit("wisconsin", epsilon=1.0, learner="dpsgd", ray="auto", ledger=ledger)
    assert not ledger.exists()
