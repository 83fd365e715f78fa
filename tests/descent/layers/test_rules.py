"""Every layer rule gives the clipped sum that one backward pass an example gives."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from privaware import models
from privaware.descent import clipped_sum, cross_entropy, flat
from privaware.descent._accumulate import Batch, accumulate
from privaware.descent._layers.rules import stacked
from tests.descent.one_at_a_time import assert_agrees, slow_sum

ROWS = 5


few = settings(max_examples=15, deadline=None)


seeds = st.integers(0, 2**31)


def labels(rows=ROWS):
    return torch.randint(3, (rows,))


def headed(*layers, like):
    body = nn.Sequential(*layers, nn.Flatten())
    with torch.no_grad():
        width = body(like[:1]).shape[1]
    return nn.Sequential(body, nn.Linear(width, 3))


class Words(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.table = nn.Embedding(11, 5, padding_idx=0)
        self.inner = kind(5, 6, **options)
        self.first = options.get("batch_first", False)
        self.head = nn.Linear(6 * (2 if options.get("bidirectional") else 1), 3)

    def forward(self, codes):
        values = self.table(codes)
        out, _ = self.inner(values if self.first else values.transpose(0, 1))
        return self.head(out.mean(1 if self.first else 0))


class Attending(nn.Module):
    def __init__(self, masked="", **options):
        super().__init__()
        self.lift = nn.Linear(4, 8)
        self.inner = nn.MultiheadAttention(8, 2, **options)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 3)
        self.masked, self.other = masked, "kdim" in options

    def forward(self, inputs):
        query = self.lift(inputs)
        keys = inputs if self.other else query
        if not self.inner.batch_first:
            query, keys = query.transpose(0, 1), keys.transpose(0, 1)
        masks = {}
        if self.masked == "causal":
            masks["attn_mask"] = torch.ones(5, 5).triu(1).bool()
        if self.masked == "padding":
            masks["key_padding_mask"] = inputs[:, :, 0] > 1.5
        out, _ = self.inner(query, keys, keys, **masks)
        out = out if self.inner.batch_first else out.transpose(0, 1)
        return self.head(self.norm(out).mean(1))


class Shared(nn.Module):
    """Parameters used in more ways than one; `way` names it."""

    def __init__(self, way):
        super().__init__()
        self.way = way
        self.inner, self.head = nn.Linear(4, 4), nn.Linear(4, 3)
        self.scale = nn.Parameter(torch.randn(4)) if way == "bare" else None
        self.filter = nn.Conv1d(1, 1, 3, padding=1) if way == "filter" else None
        if way == "tied":
            self.other = nn.Linear(4, 4)
            self.other.weight = self.inner.weight

    def forward(self, inputs):
        hidden = torch.tanh(self.inner(inputs))
        if self.way == "twice":
            hidden = self.inner(hidden)
        elif self.way == "tied":
            hidden = self.other(hidden)
        elif self.way == "bare":
            hidden = hidden * self.scale
        elif self.way == "outside":
            hidden = F.linear(hidden, self.inner.weight)
        elif self.way == "filter":
            hidden = self.filter(self.filter(hidden[:, None]))[:, 0]
        elif self.way == "in place":
            hidden = self.inner(inputs).relu_()
        return self.head(hidden)


class Turned(nn.Module):
    """Time first inside, or time folded into the examples."""

    def __init__(self, fold):
        super().__init__()
        self.inner, self.head, self.fold = nn.Linear(4, 4), nn.Linear(4, 3), fold

    def forward(self, inputs):
        if self.fold:
            inner = torch.tanh(self.inner(inputs.reshape(-1, 4)))
            return self.head(inner.view(len(inputs), -1, 4).mean(1))
        return self.head(torch.tanh(self.inner(inputs.transpose(0, 1))).mean(0))


def words():
    return torch.randint(0, 11, (ROWS, 5))


NAMED = {
    "lstm": lambda: (Words(nn.LSTM, batch_first=True), words()),
    "lstm deep, both ways": lambda: (Words(nn.LSTM, num_layers=2, bidirectional=True), words()),
    "lstm without bias": lambda: (Words(nn.LSTM, bias=False), words()),
    "gru deep": lambda: (Words(nn.GRU, num_layers=2), words()),
    "gru both ways": lambda: (Words(nn.GRU, bidirectional=True, batch_first=True), words()),
    "rnn": lambda: (Words(nn.RNN, nonlinearity="relu"), words()),
    "attention": lambda: (Attending(batch_first=True), torch.randn(ROWS, 5, 4)),
    "attention, time first": lambda: (Attending(masked="causal"), torch.randn(ROWS, 5, 4)),
    "attention, padded": lambda: (Attending(masked="padding", bias=False), torch.randn(ROWS, 5, 4)),
    "attention, other keys": lambda: (Attending(kdim=4, vdim=4), torch.randn(ROWS, 5, 4)),
    "attention, learnt keys": lambda: (Attending(add_bias_kv=True, batch_first=True), torch.randn(ROWS, 5, 4)),
    "called twice": lambda: (Shared("twice"), torch.randn(ROWS, 4)),
    "tied": lambda: (Shared("tied"), torch.randn(ROWS, 4)),
    "bare parameter": lambda: (Shared("bare"), torch.randn(ROWS, 4)),
    "weight used outside": lambda: (Shared("outside"), torch.randn(ROWS, 4)),
    "filter called twice": lambda: (Shared("filter"), torch.randn(ROWS, 4)),
    "in-place activation": lambda: (Shared("in place"), torch.randn(ROWS, 4)),
    "time folded": lambda: (Turned(fold=True), torch.randn(ROWS, 6, 4)),
    "time first": lambda: (Turned(fold=False), torch.randn(ROWS, 6, 4)),
    "unknown layer": lambda: (nn.Sequential(nn.Linear(4, 6), nn.PReLU(6), nn.Linear(6, 3)), torch.randn(ROWS, 4)),
    "transposed convolution": lambda: (
        headed(nn.ConvTranspose2d(2, 3, 2), like=torch.zeros(1, 2, 4, 4)),
        torch.randn(ROWS, 2, 4, 4),
    ),
    "layer norm over two": lambda: (
        nn.Sequential(nn.Linear(4, 6), nn.LayerNorm((5, 6)), nn.Flatten(), nn.Linear(30, 3)),
        torch.randn(ROWS, 5, 4),
    ),
    "root mean square norm": lambda: (
        nn.Sequential(nn.Linear(4, 6), nn.RMSNorm(6), nn.Linear(6, 3)),
        torch.randn(ROWS, 4),
    ),
    "wide on a short sequence": lambda: (
        nn.Sequential(nn.Linear(4, 60), nn.Tanh(), nn.Linear(60, 50), nn.Flatten(), nn.Linear(150, 3)),
        torch.randn(ROWS, 3, 4),
    ),
    "lstm with one bias": lambda: (
        nn.Sequential(models.LSTM(4, 6), nn.Flatten(), nn.Linear(30, 3)),
        torch.randn(ROWS, 5, 4),
    ),
    "standardised convolution": lambda: (
        headed(
            models.StandardisedConv2d(2, 3, 3, 2, 1),
            nn.Tanh(),
            models.StandardisedConv2d(3, 4, 2),
            like=torch.zeros(1, 2, 6, 6),
        ),
        torch.randn(ROWS, 2, 6, 6),
    ),
    "transformer": lambda: (
        nn.Sequential(
            nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True), nn.Flatten(), nn.Linear(24, 3)
        ),
        torch.randn(ROWS, 3, 8),
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_layer_rule_agrees_with_autograd(name):
    torch.manual_seed(3)
    module, inputs = NAMED[name]()
    assert_agrees(module, inputs, labels())


MATERIALISED = ("time first", "weight used outside")


@pytest.mark.parametrize("name", NAMED)
def test_population_sums_agree_with_each_model_alone(name):
    torch.manual_seed(4)
    module, inputs = NAMED[name]()
    population = [copy.deepcopy(module) for _ in range(3)]
    for model in population:
        for parameter in model.parameters():
            parameter.data += 0.3 * torch.randn_like(parameter)
    picked = torch.stack([torch.randperm(ROWS)[:4] for _ in population])
    goals, norms = labels(), [0.3, 0.5, 0.7]
    stack = stacked(population, materialise=name in MATERIALISED)
    total = torch.zeros_like(stack.theta)
    norm = torch.tensor(norms).repeat_interleave(4)[:, None]
    index = picked.flatten()
    accumulate(stack, cross_entropy, Batch((inputs[index],), goals[index], 12), flat(1.0), norm, total)
    for at, model in enumerate(population):
        rows = picked[at]
        expected, _ = slow_sum(model, cross_entropy, inputs[rows], goals[rows], norms[at])
        for segment in stack.segments:
            torch.testing.assert_close(stack.view(total, segment)[at], expected[segment.name], rtol=2e-5, atol=2e-6)


SMALL_LIMIT_CASES = {
    "convolution": lambda: (
        headed(nn.Conv2d(2, 4, 3, groups=2), nn.Conv2d(4, 3, 2), like=torch.zeros(1, 2, 6, 6)),
        torch.randn(ROWS, 2, 6, 6),
    ),
    "wide convolution": lambda: (
        headed(nn.Conv2d(2, 30, 3, 3), nn.Conv2d(30, 20, 1), like=torch.zeros(1, 2, 6, 6)),
        torch.randn(ROWS, 2, 6, 6),
    ),
    "standardised convolution": NAMED["standardised convolution"],
    "wide on a short sequence": NAMED["wide on a short sequence"],
    "time folded": NAMED["time folded"],
    "lstm": NAMED["lstm"],
}


@pytest.mark.parametrize("name", SMALL_LIMIT_CASES)
@pytest.mark.parametrize("population", [1, 2])
def test_sums_do_not_depend_on_the_memory_limit(name, population, monkeypatch):
    torch.manual_seed(5)
    module, inputs = SMALL_LIMIT_CASES[name]()
    goals = labels()
    actual = []
    for limit in (2**26, 50):
        for module_name in ("_example_sums", "_per_example", "_layers.convolution", "_layers.weight_standardisation"):
            monkeypatch.setattr(
                f"privaware.descent.{module_name}.materialised_limit", lambda device, limit=limit: limit
            )
        stack = stacked([module] * population)
        total = torch.zeros_like(stack.theta)
        batch = Batch((torch.cat([inputs] * population),), torch.cat([goals] * population), ROWS * population)
        squares = accumulate(stack, cross_entropy, batch, flat(0.3), 0.3, total)
        actual.append((squares, total))
    torch.testing.assert_close(actual[0], actual[1], rtol=1e-5, atol=1e-6)


@few
@given(st.integers(1, 9), st.integers(1, 6), st.booleans(), seeds)
def test_linear_rule_agrees_with_autograd(rows, width, bias, seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(4, width, bias=bias), nn.Tanh(), nn.Linear(width, 3))
    assert_agrees(net, torch.randn(rows, 4), labels(rows))


@few
@given(st.integers(1, 7), st.integers(1, 12), st.integers(1, 12), seeds)
def test_linear_rule_on_sequences_agrees_with_autograd(time, width, height, seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(width, height), nn.Tanh(), nn.Linear(height, 4), nn.Flatten(), nn.Linear(4 * time, 3))
    assert_agrees(net, torch.randn(ROWS, time, width), labels())


@settings(max_examples=40, deadline=None)
@given(
    dimensions=st.integers(1, 3),
    groups=st.integers(1, 3),
    kernel=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    stride=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    dilation=st.lists(st.integers(1, 2), min_size=3, max_size=3),
    padding=st.sampled_from(["valid", "same", 1, 2]),
    mode=st.sampled_from(["zeros", "reflect", "circular"]),
    wide=st.booleans(),
    bias=st.booleans(),
    seed=seeds,
)
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_convolution_rule_agrees_with_autograd(
    dimensions, groups, kernel, stride, dilation, padding, mode, wide, bias, seed
):
    torch.manual_seed(seed)
    assume(not (mode == "reflect" and dimensions == 3))
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dimensions - 1]
    cut = [tuple(values[:dimensions]) for values in (kernel, stride, dilation)]
    if padding == "same":
        cut[1] = (1,) * dimensions
    layer = kind(2 * groups, (8 if wide else 1) * groups, cut[0], cut[1], padding, cut[2], groups, bias, mode)
    inputs = torch.randn(ROWS, 2 * groups, *(7, 6, 5)[:dimensions])
    assert_agrees(headed(layer, nn.Tanh(), like=inputs), inputs, labels())


@few
@given(st.sampled_from(["group", "instance", "layer"]), st.integers(1, 3), st.booleans(), seeds)
def test_normalisation_rules_agree_with_autograd(kind, dimensions, bias, seed):
    torch.manual_seed(seed)
    shape = (4, 5, 3, 2)[: dimensions + 1]
    layer = {
        "group": lambda: nn.GroupNorm(2, 4),
        "instance": lambda: (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[dimensions - 1](4, affine=True),
        "layer": lambda: nn.LayerNorm(shape[-1:], bias=bias),
    }[kind]()
    inputs = torch.randn(ROWS, *shape)
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    assert_agrees(headed(layer, nn.Tanh(), like=inputs), inputs, labels())


@few
@given(st.integers(1, 8), st.integers(2, 6), st.sampled_from([None, 0]), seeds)
def test_embeddings_add_repeated_entries_before_squaring(time, entries, padding, seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Embedding(entries, 3, padding_idx=padding), nn.Tanh(), nn.Flatten(), nn.Linear(3 * time, 3))
    assert_agrees(net, torch.randint(entries, (ROWS, time)), labels())


def test_frozen_parameters_have_no_sums():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
    net[0].requires_grad_(False)
    net[2].bias.requires_grad_(False)
    inputs = torch.randn(ROWS, 4)
    assert_agrees(net, inputs, labels())
    sums, _ = clipped_sum(net, cross_entropy, inputs, labels(), 1.0)
    assert list(sums) == ["2.weight", "4.weight", "4.bias"]
