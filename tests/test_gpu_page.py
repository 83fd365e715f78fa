"""The plugin of `make gpu`."""

from __future__ import annotations

from tests.gpu_page import TESTS, pytest_ignore_collect


def test_folders_without_gpu_tests_are_left_out() -> None:
    """`tests/ui/conftest.py` imports the server, which a GPU machine need not have."""
    assert pytest_ignore_collect(TESTS / "ui") is True


def test_folders_and_files_with_gpu_tests_are_kept() -> None:
    assert pytest_ignore_collect(TESTS / "descent") is None
    assert pytest_ignore_collect(TESTS / "descent" / "test_named_networks.py") is None
