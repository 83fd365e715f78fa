"""Weights rounded to eight bits: within half a step of the weights, and read from files of both forms."""

from __future__ import annotations

import pytest
import torch

from privaware.features._rounded_tensors import SCALE, restored, restored_symmetric
from research.pretraining.weights_files import FEWEST_ENTRIES, rounded
from research.pretraining.weights_files import rounded_symmetric as rounded_matrix

GENERATOR = torch.Generator().manual_seed(1)


@pytest.mark.parametrize("shape", [(64, 40, 5, 5), (300, 200)])
@pytest.mark.parametrize("axis", [0, 1])
def test_rounding_errs_by_half_a_step_of_each_channel(shape: tuple[int, ...], axis: int) -> None:
    sizes = torch.logspace(-4, 2, shape[axis]).reshape([-1 if at == axis else 1 for at in range(len(shape))])
    tensor = sizes * torch.randn(shape, generator=GENERATOR)
    tensor.select(axis, 3).zero_()
    largest = tensor.abs().amax([at for at in range(len(shape)) if at != axis], keepdim=True)
    stored = rounded({"weight": tensor})
    assert stored["weight"].dtype == torch.int8
    assert ((restored(stored)["weight"] - tensor).abs() <= 0.501 * largest / 127).all()


def test_small_tensors_and_vectors_stay_in_half_precision() -> None:
    tensors = {"bias": torch.randn(FEWEST_ENTRIES, generator=GENERATOR), "stem": torch.ones(16, 3, 3, 3) / 3}
    stored = rounded(tensors)
    assert {name: value.dtype for name, value in stored.items()} == dict.fromkeys(tensors, torch.float16)
    assert all(torch.equal(value, tensors[name].half()) for name, value in restored(stored).items())


def test_whole_numbers_without_their_scales_are_refused() -> None:
    stored = rounded({"weight": torch.randn(300, 200, generator=GENERATOR)})
    del stored["weight" + SCALE]
    with pytest.raises(KeyError, match="weight"):
        restored(stored)


@pytest.mark.parametrize("size", [1, 2, 50])
def test_symmetric_matrix_errs_by_half_a_step_of_its_rows(size: int) -> None:
    matrix = torch.randn(size, size, generator=GENERATOR)
    matrix = (matrix + matrix.T) / 20 + 3 * torch.eye(size)
    off = matrix - torch.diag(matrix.diagonal())
    stored = rounded_matrix("root", matrix)
    again = restored_symmetric("root", restored(stored))
    assert torch.equal(again, again.T)
    assert again.diagonal().numpy() == pytest.approx(matrix.diagonal().numpy(), rel=1e-3)
    # a row with a smaller largest entry than its column clips nothing: both hold the same entry
    assert ((again - torch.diag(again.diagonal()) - off).abs() <= 0.501 * off.abs().amax(1) / 127 + 1e-7).all()
