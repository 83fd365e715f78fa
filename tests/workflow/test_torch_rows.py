"""A DataLoader or a data set of PyTorch is a source of rows: its batches are not used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from scipy.sparse import csr_matrix
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, WeightedRandomSampler

from privaware import Ledger, train
from privaware.errors import WrongInput

SETTINGS: dict[str, Any] = {"steps": 5, "sampling_rate": 0.2, "clipping_norm": 1.0, "lr": 0.5, "seed": 1}
X = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return Ledger.create(tmp_path_factory.mktemp("rows") / "l.ledger", limit=100.0)


def trained(ledger: Ledger, *rows: Any, **more: Any) -> torch.Tensor:
    torch.manual_seed(1)
    return weight(train(nn.Linear(4, 2), *rows, epsilon=1.0, ledger=ledger, **SETTINGS, **more))


def weight(module: nn.Module) -> torch.Tensor:
    return next(module.parameters()).detach()


class Pairs(Dataset[Any]):
    """A data set that makes its items one by one."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, at: int) -> Any:
        return X[at].numpy(), int(Y[at])


class Doubled(TensorDataset):
    """A data set of tensors that changes its items."""

    def __getitem__(self, at: int) -> Any:
        x, y = super().__getitem__(at)
        return 2 * x, y


@pytest.mark.parametrize(
    "source",
    [
        DataLoader(TensorDataset(X, Y), batch_size=7, shuffle=True, drop_last=True),
        DataLoader(TensorDataset(X, Y), sampler=WeightedRandomSampler([1.0] * 150 + [0.0] * 50, 10)),
        TensorDataset(X, Y),
        DataLoader(Pairs(), batch_size=16),
        Subset(Pairs(), range(200)),
    ],
)
def test_loader_trains_the_model_of_its_rows(ledger: Ledger, source: Any) -> None:
    assert torch.equal(trained(ledger, source), trained(ledger, X, Y))


def test_loader_says_that_its_batches_are_not_used(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    trained(ledger, DataLoader(TensorDataset(X, Y), batch_size=7))
    assert "batches, order and sampler are not used" in capsys.readouterr().err
    trained(ledger, DataLoader(TensorDataset(X, Y), batch_size=7), progress=False)
    assert capsys.readouterr().err == ""


class Stream(IterableDataset[Any]):
    """A data set without a length."""

    def __iter__(self) -> Iterator[Any]:
        return iter(zip(X, Y, strict=True))


class Records(Pairs):
    """A data set whose items are no pairs."""

    def __getitem__(self, at: int) -> Any:
        return {"x": X[at], "y": Y[at]}


class Ragged(Pairs):
    """A data set whose items differ in shape."""

    def __getitem__(self, at: int) -> Any:
        return X[at, : 1 + at % 4], Y[at]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((DataLoader(Stream()),), "can be read by position"),
        ((Stream(),), "can be read by position"),
        ((DataLoader(TensorDataset(X, Y), collate_fn=lambda items: items),), "collate_fn"),
        ((DataLoader(TensorDataset(X, Y), batch_size=None, collate_fn=lambda item: item),), "collate_fn"),
        ((DataLoader(TensorDataset(X, Y)), Y), "targets inside"),
        ((DataLoader(Records()),), "pairs"),
        ((DataLoader(Ragged()),), "same shape"),
        ((DataLoader(TensorDataset(X)),), "pairs"),
        ((X,), "expected targets"),
        (({"x": X}, Y), "got a dict; for a module with several inputs, pass a tuple"),
        ((X.to_sparse(), Y), r"got sparse ones; pass their to_dense\(\)"),
        ((TensorDataset(X.to_sparse(), Y),), r"got sparse ones; pass their to_dense\(\)"),
        ((csr_matrix(X.numpy()), Y), r"got sparse ones; pass their toarray\(\)"),
        ((torch.nested.nested_tensor(list(X), layout=torch.jagged), Y), "got a nested tensor"),
    ],
)
def test_source_without_whole_rows_is_refused(ledger: Ledger, rows: tuple[Any, ...], words: str) -> None:
    with pytest.raises(WrongInput, match=words):
        trained(ledger, *rows)


def test_items_of_a_subclass_of_tensor_data_set_are_used(ledger: Ledger) -> None:
    assert torch.equal(trained(ledger, Doubled(X, Y)), trained(ledger, 2 * X, Y))


def test_several_inputs_of_a_tensor_data_set_are_used(ledger: Ledger) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, left: torch.Tensor, right: torch.Tensor) -> Any:
            return self.layer(torch.cat([left, right], 1))

    data = TensorDataset(X[:, :2], X[:, 2:], Y)
    torch.manual_seed(1)
    module = Two()
    first, second = (
        train(module, *rows, epsilon=1.0, ledger=ledger, **SETTINGS) for rows in ((data,), ((X[:, :2], X[:, 2:]), Y))
    )
    assert torch.equal(weight(first), weight(second))
