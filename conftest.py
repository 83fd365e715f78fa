"""Every test run has an empty cache and an empty home of its own: what a used machine remembers must not help."""

from __future__ import annotations

import os
import tempfile

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Workers share the folder of the process that started them."""
    if "PRIVAWARE_TEST_CACHE" not in os.environ:
        own = tempfile.TemporaryDirectory(prefix="privaware-cache-")
        config.add_cleanup(own.cleanup)
        os.environ["PRIVAWARE_TEST_CACHE"] = own.name
    os.environ["PRIVAWARE_CACHE"] = os.environ["PRIVAWARE_TEST_CACHE"]
