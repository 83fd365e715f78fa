"""Batch norm is refused and can be replaced."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from privaware.descent import clipped_sum, cross_entropy, replace_batch_norm
from privaware.errors import Refused, WrongInput
from tests.descent.small_training import examples


def test_replace_batch_norm_makes_a_module_trainable():
    x, y = examples(6)
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    clipped_sum(replace_batch_norm(module), cross_entropy, x, y, 1.0)
    assert isinstance(module[1], nn.BatchNorm1d)


def test_batch_norm_is_not_replaced_by_no_group():
    with pytest.raises(WrongInput, match="expected groups as a whole number >= 1, got 0"):
        replace_batch_norm(nn.Sequential(nn.BatchNorm1d(6)), groups=0)


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_embeddings_that_shorten_their_entries_are_refused(kind):
    module = nn.Sequential(kind(10, 4, max_norm=1.0), nn.Flatten(), nn.Linear(4, 3))
    tokens = torch.zeros(6, 1, dtype=torch.long)
    with pytest.raises(Refused, match="leave max_norm and scale_grad_by_freq off"):
        clipped_sum(module, cross_entropy, tokens, tokens[:, 0], 1.0)


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_embeddings_with_sparse_gradients_are_refused(kind):
    tokens = torch.zeros(6, 1, dtype=torch.long)
    with pytest.raises(Refused, match=r"layer '0' is an embedding with sparse gradients.*set sparse=False"):
        clipped_sum(nn.Sequential(kind(10, 3, sparse=True), nn.Flatten()), cross_entropy, tokens, tokens[:, 0], 1.0)


@pytest.mark.parametrize("register", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_on_gradients_of_parameters_are_refused(register):
    x, y = examples(6)
    module = nn.Linear(4, 3)
    hook = getattr(module.weight, register)(lambda gradient: gradient)
    with pytest.raises(Refused, match="hook on the gradient of a parameter"):
        clipped_sum(module, cross_entropy, x, y, 1.0)
    hook.remove()
    clipped_sum(module, cross_entropy, x, y, 1.0)
