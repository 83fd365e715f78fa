"""The prior over several views of an image, beside codes of a dictionary and scattering: wide rows, for a GPU.

Three parts, each of length 1 times its weight: whitened feature maps of the prior's network at four depths, averaged
over the image, four shifts, two enlargements and all their mirror images; codes, which say how similar the positions of
one map are to typical ones (`_prior_dictionary`), averaged over the same views; whitened scattering coefficients. The
network for glyphs may stand beside them: digits and signs gain most by it.
Noise on a linear model does not grow with the width of rows of one length, so that a wide row costs time alone.

Paper: Coates, Ng and Lee 2011, An Analysis of Single-Layer Networks in Unsupervised Feature Learning, for dictionaries;
the network and its use under privacy are those of the feature `prior`. Views and codes of its maps are ours:
docs/results/prior.md.
Privacy: no privacy cost (data-independent): each row is transformed by itself, by weights and statistics of synthetic
images fixed beforehand.
Use when: the data are natural images and there is a GPU: it takes fourteen passes of the network for an image.

>>> PriorViews(dictionary=0.0, scatter=0.0).width()
5120

`fit(..., learner="linear", settings={"features": [{"name": "prior_views"}], "steps": 250, "norm": 0.25})`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privaware._validate import expect_between, expect_positive
from privaware.features._prior_shipped import (
    GLYPH_COLUMNS,
    SHIPPED,
    SHIPPED_GLYPHS,
    SHIPPED_VIEWS,
    expected_checksum,
    stored_weights,
)
from privaware.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["PriorViews"]

MICROBATCH = {"cpu": 16, "cuda": 256}
WHITEN = 0.3


@dataclass(frozen=True, kw_only=True)
class PriorViews:
    """`dictionary`, `scatter` and `glyphs` are the weights of codes, scattering and glyphs beside the maps, 0 for none.

    `mirror` averages over mirror images too: false for digits and signs. `weights` and `statistics` are files written
    by `privaware reproduce ours/prior/weights` and `ours/prior/views`, instead of those in the package; `checksum` is
    that of the shipped statistics (and glyphs), so that a model refuses others.
    """

    dictionary: float = 1.0
    scatter: float = 0.5
    glyphs: float = 0.0
    mirror: bool = True
    norm: float = 1.0
    weights: str | None = None
    statistics: str | None = None
    checksum: str | None = None

    def __post_init__(self) -> None:
        expect_between("prior_views", 0, 100, dictionary=self.dictionary, scatter=self.scatter, glyphs=self.glyphs)
        expect_positive("prior_views", norm=self.norm)
        shipped = [SHIPPED_VIEWS] * (self.statistics is None) + [SHIPPED_GLYPHS] * bool(self.glyphs)
        if shipped:
            object.__setattr__(self, "checksum", expected_checksum(self.checksum, *shipped))

    def __call__(self, x: Any, schema: Schema | None = None) -> Any:
        """Rows for images (rows, 1 or 3, height, width) in [0, 1]; a tensor stays a tensor on its device."""
        from privaware.features._prior_transform import in_microbatches

        return in_microbatches("prior_views", x, self.on, self.width(), MICROBATCH)

    def on(self, device: Any) -> Callable[[Tensor], Tensor]:
        """The transformation of one microbatch of tensors, with all weights on `device`."""
        import torch
        from torch.nn.functional import normalize

        from privaware.features._glyph_rows import glyph_rows
        from privaware.features._prior_maps import preprocess
        from privaware.features._prior_transform import whitened_scattering
        from privaware.features._prior_views import stored_statistics, stored_view_whitening, view_parts

        known = stored_statistics(self._statistics, str(device))
        network = stored_weights(self._weights, str(device)).network
        depths, pools = known.maps.depths, known.maps.pools
        whitening = stored_view_whitening(self._statistics, WHITEN, str(device))
        dictionary = known.dictionary if self.dictionary else None
        scattering = whitened_scattering(self._weights, WHITEN, self.mirror, str(device)) if self.scatter else None
        strokes = glyph_rows(device) if self.glyphs else None

        @torch.no_grad()
        def transform(images: Tensor) -> Tensor:
            inputs = preprocess(images)
            maps = view_parts(network, inputs, self.mirror, depths, pools, dictionary, known.depth)
            rows = [normalize(whitening(maps[: len(depths)]), dim=1)]
            if dictionary is not None:
                rows.append(self.dictionary * normalize(known.codes(maps[-1]), dim=1))
            if scattering is not None:
                rows.append(self.scatter * normalize(scattering(inputs), dim=1))
            if strokes is not None:
                rows.append(self.glyphs * strokes(inputs))
            return self.norm * normalize(torch.cat(rows, 1), dim=1)

        return transform

    def width(self, schema: Schema | None = None) -> int:
        """The number of entries of a row."""
        from privaware.features._prior_dictionary import POOL
        from privaware.features._prior_scattering import COLUMNS
        from privaware.features._prior_views import stored_statistics

        known = stored_statistics(self._statistics, "cpu")
        maps = sum(len(mean) * pool**2 for mean, pool in zip(known.maps.means, known.maps.pools, strict=True))
        codes = POOL**2 * len(known.dictionary.entries) if self.dictionary else 0
        return maps + codes + (COLUMNS if self.scatter else 0) + (GLYPH_COLUMNS if self.glyphs else 0)

    @property
    def _weights(self) -> str:
        return str(SHIPPED) if self.weights is None else self.weights

    @property
    def _statistics(self) -> str:
        return str(SHIPPED_VIEWS) if self.statistics is None else self.statistics
