"""Samples cut into microbatches: every example once, padding marked, few shapes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from privaware.descent._layers.rules import stacked
from privaware.descent._microbatches import MicrobatchLayout, microbatch_size, microbatches

STACK = stacked([nn.Linear(2, 2)])


@settings(deadline=None, max_examples=50)
@given(
    samples=st.lists(st.sets(st.integers(0, 99), max_size=60).map(sorted), min_size=1, max_size=4),
    size=st.integers(1, 70),
)
def test_every_sampled_example_is_selected_once_for_its_model(samples, size):
    selected = [[] for _ in samples]
    arrays = [np.array(sample, dtype=np.int64) for sample in samples]
    for selection in microbatches(arrays, MicrobatchLayout(1, size), STACK):
        index = torch.arange(100)[selection.index].view(len(samples), -1)
        valid = torch.ones_like(index) if selection.valid is None else selection.valid.view_as(index)
        assert index.shape[1] == size
        for model, chosen in enumerate(selected):
            chosen += index[model][valid[model] != 0].tolist()
    assert selected == samples


def test_padding_fills_one_public_shape():
    samples = [np.array([1, 5, 9]), np.array([2])]
    (selection,) = microbatches(samples, MicrobatchLayout(2, 8), STACK)
    assert selection.index.shape == (2 * 16,)
    assert selection.valid.view(2, -1).sum(1).tolist() == [3.0, 1.0]


def test_consecutive_examples_of_one_model_are_a_slice():
    *full, last = microbatches([np.arange(10)], MicrobatchLayout(1, 4), STACK)
    assert [s.index for s in full] == [slice(0, 4), slice(4, 8)]
    assert (last.index.tolist(), last.valid.tolist()) == ([8, 9, 0, 0], [1, 1, 0, 0])


@settings(deadline=None, max_examples=200)
@given(slots=st.integers(1, 5_000), microbatch=st.integers(1, 6_000), most=st.integers(1, 216))
def test_a_layout_keeps_both_limits_and_hardly_pads(slots, microbatch, most):
    layout = MicrobatchLayout.of(slots, microbatch=microbatch, most=most)
    assert 1 <= layout.group <= most
    assert layout.width <= microbatch
    pieces = -(-slots // layout.width)
    if microbatch >= slots + 8 * layout.groups:
        assert pieces == 1
        assert layout.width - slots < 8 * layout.groups


def test_empty_samples_have_no_microbatch():
    assert list(microbatches([np.array([], dtype=np.int64)] * 2, MicrobatchLayout(1, 4), STACK)) == []


@pytest.mark.parametrize("copies", [1, 4])
def test_a_larger_example_allows_a_smaller_microbatch(copies):
    small, large = (stacked([nn.Sequential(nn.Linear(width, 8), nn.Tanh())]) for width in (4, 4000))
    sizes = [
        microbatch_size(small, [torch.zeros(5, 4)], copies),
        microbatch_size(large, [torch.zeros(5, 4000)], copies),
    ]
    assert sizes[0] > 50 * sizes[1]
    assert sizes[1] >= 1
