"""Synthetic glyphs: what two drawings share, what varies, and that everything follows from the seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from privaware.errors import WrongInput
from privaware.features.prior import Prior
from research.pretraining.glyphs import FAMILY_SIZE, STROKES, SyntheticGlyphs, alphabet
from research.pretraining.images import generator_for

TINY = SyntheticGlyphs(seed=4, chunk=16, textures=8, generators=1)


def test_drawings_follow_from_seed_and_number() -> None:
    both = TINY.generate(24)
    assert both.dtype == torch.uint8
    assert both.shape == (24, 3, 32, 32)
    assert torch.equal(both[16:], TINY.generate(8, first=1))
    assert not torch.equal(both[:16], SyntheticGlyphs(seed=5, chunk=16, textures=8, generators=1).generate(16))


def test_families_differ_in_one_stroke_and_no_glyph_is_empty() -> None:
    glyphs = torch.nan_to_num(alphabet(400, generator_for(1, "test", 0, "cpu")), nan=9.0)
    assert (glyphs != 9).flatten(1).any(1).all()
    families = glyphs.unflatten(0, (-1, FAMILY_SIZE))
    differing = (families[:, 1:] != families[:, :1]).flatten(3).any(3).sum(2)
    assert differing.max() <= STROKES
    assert ((differing <= 1).float().mean()) > 0.95  # but where changing one stroke left none


def test_shipped_network_recognises_drawings_of_one_glyph() -> None:
    pairs = SyntheticGlyphs(seed=77, textures=32, generators=2).pairs(64, 0).numpy()
    deep = Prior(network="glyphs", depths=(2,), pools=(1,))(pairs)
    nearest = (deep[:64] @ deep[64:].T).argmax(1)
    assert (nearest == np.arange(64)).mean() > 0.4
    assert (nearest // FAMILY_SIZE == np.arange(64) // FAMILY_SIZE).mean() > 0.6


def test_pairs_are_two_drawings_of_the_same_glyphs() -> None:
    pairs = TINY.pairs(8, 3)
    assert pairs.shape == (16, 3, 32, 32)
    assert pairs.min() >= 0
    assert pairs.max() <= 1
    assert torch.equal(pairs, TINY.pairs(8, 3))
    assert not torch.equal(pairs[:8], pairs[8:])


def test_glyphs_stand_beside_another_network_with_their_weight() -> None:
    images = np.random.default_rng(3).random((2, 1, 28, 28), dtype=np.float32)
    joined, alone = Prior(network="small", glyphs=0.5), Prior(network="glyphs")
    rows = joined(images)
    assert rows.shape == (2, joined.width()) == (2, Prior(network="small").width() + alone.width())
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-4)
    share = 0.5 / np.sqrt(1 + 0.5**2)
    assert rows[:, -alone.width() :] == pytest.approx(share * alone(images), abs=1e-4)


def test_a_model_on_both_networks_names_both_checksums() -> None:
    both = Prior(network="small", glyphs=1.0)
    names = f"{Prior(network='small').checksum}+{Prior(network='glyphs').checksum}"
    assert both.checksum == names
    with pytest.raises(WrongInput, match="fit it again"):
        Prior(network="small", glyphs=1.0, checksum=Prior(network="small").checksum)
    with pytest.raises(WrongInput, match="scatter and glyphs 0"):
        Prior(glyphs=1.0).architecture(3)
