"""Data sets whose files may not be on this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from privaware import datasets
from privaware.datasets import Dataset

_load = cache(datasets.load)


@pytest.fixture
def loaded() -> Callable[[str], Dataset]:
    """`loaded(name)` is the data set, read once; without its files the test is skipped with a reason."""

    def load(name: str) -> Dataset:
        source = datasets.source(name)
        if source.files and source.folder() is None:
            pytest.skip(f"the files of {name} are not here: set PRIVAWARE_DATA to a folder that holds them")
        # images are large and asked for once
        return datasets.load(name) if source.facts.form == "image" else _load(name)

    return load
