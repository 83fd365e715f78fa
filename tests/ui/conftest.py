"""A folder with rows, a ledger and a model, and its page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from privaware import fit
from tests.cli.people import TOML, write_people
from tests.ui.server import Served, served


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    (folder / "people.toml").write_text(TOML)
    write_people(folder / "people.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVAWARE_LEDGERS", str(tmp_path_factory.mktemp("ledgers")))
        fit(folder / "people.csv", schema=folder / "people.toml", epsilon=1.0, limit=3.0, out=folder / "model")
    (folder / "damaged").mkdir()
    (folder / "damaged" / "model.json").write_text("{")
    return folder


@pytest.fixture(scope="session")
def page(folder: Path) -> Iterator[Served]:
    with served(folder) as opened:
        yield opened
