"""Every test run has an empty cache and every test knows no rows: what a used machine remembers must not help."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Workers share the cache of the process that started them; each process has a registry of rows of its own."""
    if "PRIVAWARE_TEST_CACHE" not in os.environ:
        own = tempfile.TemporaryDirectory(prefix="privaware-cache-")
        config.add_cleanup(own.cleanup)
        os.environ["PRIVAWARE_TEST_CACHE"] = own.name
    os.environ["PRIVAWARE_CACHE"] = os.environ["PRIVAWARE_TEST_CACHE"]
    os.environ["PRIVAWARE_LEDGERS"] = _empty_registry()


def _empty_registry() -> str:
    return str(Path(os.environ["PRIVAWARE_TEST_CACHE"]) / "ledgers" / uuid.uuid4().hex)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test with the marker `cuda` where there is no GPU, unless the marker names another way to run it."""
    marker = item.get_closest_marker("cuda")
    if marker is not None and not _can_run(marker.kwargs.get("instead")):
        pytest.skip("needs a CUDA device")


def _can_run(instead: str | None) -> bool:
    import torch

    interpreted = os.environ.get("TRITON_INTERPRET") == "1" and importlib.util.find_spec("triton") is not None
    return torch.cuda.is_available() or instead == "cpu" or (instead == "triton" and interpreted)


@pytest.fixture(scope="module", autouse=True)
def no_rows_known_to_module() -> Iterator[None]:
    """A registry of rows for the fixtures of a module, which a worker may set up twice with the same rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVAWARE_LEDGERS", _empty_registry())
        yield


@pytest.fixture(autouse=True)
def no_rows_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry of rows for each test, created by whoever writes to it; the process remembers no rows either."""
    monkeypatch.setenv("PRIVAWARE_LEDGERS", _empty_registry())
    if (module := sys.modules.get("privaware.workflow.run.row_ledger")) is not None:
        module.WITHOUT_LEDGER.clear()


@pytest.fixture(autouse=True)
def no_structure_probed() -> None:
    """What one test plants in a layer rule must not be hidden by what another has probed."""
    if probe := sys.modules.get("privaware.descent._probe"):
        probe.known.clear()


@pytest.fixture(autouse=True)
def no_public_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` takes words for texts, as where the network of `sentences` is not installed: it is slow."""
    monkeypatch.setattr("privaware.features._public_text.installed", lambda: False)
