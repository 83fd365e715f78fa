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
from privaware.features._prior.shipped import GLYPH_COLUMNS, SHIPPED, SHIPPED_GLYPHS, SHIPPED_VIEWS, expected_checksum
from privaware.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor

    from privaware.features._prior.view_rows import ViewRows

__all__ = ["PriorViews"]

MICROBATCH = {"cpu": 16, "cuda": 256}


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
        from privaware.features._prior.transform import in_microbatches

        return in_microbatches("prior_views", x, self.on, self.width(), MICROBATCH)

    def on(self, device: Any) -> Callable[[Tensor], Tensor]:
        """The transformation of one microbatch of tensors, with all weights on `device`."""
        import torch
        from torch.nn.functional import normalize

        from privaware.features._prior.glyph_rows import glyph_rows
        from privaware.features._prior.maps import preprocess

        views = self._views().on(device)
        strokes = glyph_rows(device) if self.glyphs else None

        @torch.no_grad()
        def transform(images: Tensor) -> Tensor:
            inputs = preprocess(images)
            rows = views(inputs)
            if strokes is not None:
                rows = torch.cat([rows, self.glyphs * strokes(inputs)], 1)
            return self.norm * normalize(rows, dim=1)

        return transform

    def width(self, schema: Schema | None = None) -> int:
        """The number of entries of a row."""
        return self._views().width() + (GLYPH_COLUMNS if self.glyphs else 0)

    def _views(self) -> ViewRows:
        from privaware.features._prior.view_rows import ViewRows

        return ViewRows(
            dictionary=self.dictionary,
            scatter=self.scatter,
            mirror=self.mirror,
            weights=str(SHIPPED) if self.weights is None else self.weights,
            statistics=str(SHIPPED_VIEWS) if self.statistics is None else self.statistics,
        )
