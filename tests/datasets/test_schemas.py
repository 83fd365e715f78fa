"""The public schema of every data set is complete without its files."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from privaware import datasets, registry
from privaware.errors import WrongInput
from privaware.schema import Schema

NAMES = registry.names("datasets")
BUILT_IN = {
    "adult",
    "breast_cancer",
    "cifar10",
    "digits",
    "fashion_mnist",
    "location30",
    "medical_cost",
    "mnist",
    "purchase100",
    "sms_spam",
    "svhn",
    "wisconsin",
}


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without files or network: opening a connection fails the test."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("asked the network")

    monkeypatch.delenv("PRIVAWARE_DATA", raising=False)
    monkeypatch.setenv("PRIVAWARE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_listing_holds_the_twelve_data_sets(offline: None) -> None:
    rows = {row["name"]: row for row in datasets.listing()}
    assert set(rows) >= BUILT_IN
    assert [name for name in sorted(BUILT_IN) if rows[name]["ready"]] == ["digits", "wisconsin"]
    assert rows["adult"]["rows"] == 32_561
    assert all(row["what"].endswith((".", "?")) or ":" in row["what"] for row in rows.values())


@pytest.mark.parametrize("name", NAMES)
def test_schema_is_complete_without_files(offline: None, name: str) -> None:
    facts = datasets.schema(name)
    assert facts.reviewed
    assert facts.bounded
    assert facts.rows > 1
    assert Schema.parse(facts.toml()) == facts
    assert Schema.from_json(facts.json()) == facts
    for column in facts.used:
        if column.bins:
            assert column.low is not None
            assert column.high is not None
            assert column.low < column.bins[0]
            assert column.bins[-1] <= column.high


@pytest.mark.parametrize("name", NAMES)
def test_public_part_is_at_most_a_fifth_of_the_training_rows(offline: None, name: str) -> None:
    source = datasets.source(name)
    assert datasets.schema(name, public=True).rows == source.facts.rows - source.public_rows
    assert 0 < source.public_rows <= source.facts.rows // 5


@pytest.mark.parametrize("name", NAMES)
def test_card_names_origin_and_licence(name: str) -> None:
    card = registry.card("datasets", name)
    for word in ("Rows:", "Origin:", "Licence:", "public part"):
        assert word in card


@pytest.mark.parametrize("name", sorted(BUILT_IN - {"purchase100", "location30"}))
def test_every_download_has_a_checksum(name: str) -> None:
    assert all(file.sha256 and file.urls for file in datasets.source(name).files)


@pytest.mark.parametrize("name", ["purchase100", "location30"])
def test_unknown_checksum_is_refused_without_network_access(offline: None, name: str) -> None:
    with pytest.raises(WrongInput, match="no checksum is known"):
        datasets.load(name)


def test_path_of_missing_files_names_the_fetch_command(offline: None) -> None:
    with pytest.raises(WrongInput, match="privaware data fetch adult"):
        datasets.path("adult")
    with pytest.raises(WrongInput, match="comes with scikit-learn"):
        datasets.path("digits")
    assert datasets.fetch("digits") is None


def test_misspelt_name_suggests_close_names() -> None:
    with pytest.raises(WrongInput, match="fashion_mnist"):
        datasets.load("fashon_mnist")


def test_adult_categories_are_those_of_adult_names() -> None:
    columns = {column.name: column for column in datasets.schema("adult").columns}
    sizes = {name: len(column.categories) for name, column in columns.items() if column.categories}
    assert sizes == {
        "workclass": 9,
        "marital-status": 7,
        "occupation": 15,
        "relationship": 6,
        "race": 5,
        "sex": 2,
        "native-country": 42,
    }
    assert {name for name, column in columns.items() if "?" in column.categories} == {
        "workclass",
        "occupation",
        "native-country",
    }
