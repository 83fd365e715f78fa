"""The feature `prior` over several views of an image, with codes of a dictionary and scattering: wide rows, for a GPU.

A row has three feature blocks, each scaled to norm 1 and multiplied by its weight; then the row is scaled to `norm`:
1. whitened feature maps of the network of `prior` at four depths, averaged over the image, four shifts, two
   enlargements and (with `mirror`) all their mirror images;
2. codes, which measure how similar the positions of one map are to typical positions (`_prior/views.py`), averaged
   over the same views;
3. whitened scattering coefficients.

Features of the network for glyphs may follow; they help most with digits and signs. Noise on a linear model does not
grow with the width of rows of a given norm, so a wide row costs only time.

Paper: Coates, Ng and Lee 2011, An Analysis of Single-Layer Networks in Unsupervised Feature Learning, for dictionaries;
the network and its use under privacy are as for the feature `prior`. Views and codes of its maps are this package's:
docs/results/prior.md.
Privacy: no privacy cost (data-independent): weights and statistics of synthetic images, fixed beforehand, transform
each row by itself.
Use when: the data are natural images and there is a GPU: an image takes fourteen passes of the network, or seven
without `mirror`.

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

    from privaware.features._prior.rows import ViewRows

__all__ = ["PriorViews"]

MICROBATCH = {"cpu": 16, "cuda": 256}
"""Number of images transformed at a time, by kind of device."""


@dataclass(frozen=True, kw_only=True)
class PriorViews:
    """Features of a network that was pretrained on synthetic images, averaged over several views of an image.

    Views are the image, four shifts and two enlargements. A row has blocks of whitened feature maps, of codes
    (similarities of positions of a map with typical positions), of scattering coefficients, and of features for glyphs.

    Parameters
    ----------
    dictionary, scatter, glyphs : float
        Norms of the blocks of codes, of scattering coefficients and of features for glyphs, where the block of maps has
        norm 1; 0 leaves a block out.
    mirror : bool
        Whether views include mirror images; choose false for digits and signs.
    norm : float
        L2 norm of a row; all blocks together are scaled to it.
    weights, statistics : str, optional
        Files written by `privaware reproduce ours/prior/weights` and `ours/prior/views`, used instead of the shipped
        ones.
    checksum : str, optional
        Checksum of the shipped statistics (and of the weights for glyphs), so that a model refuses other files with
        `WrongInput`. None stands for the checksum of the installed version.
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
        """Return rows (rows, `width()`) for images (rows, 1 or 3, height, width) in [0, 1].

        A tensor gives a tensor on its device, and an array gives an array.
        """
        from privaware.features._prior.rows import in_microbatches

        return in_microbatches("prior_views", x, self.on, self.width(), MICROBATCH)

    def on(self, device: Any) -> Callable[[Tensor], Tensor]:
        """Return the function from one microbatch of images to feature rows, with all weights on `device`.

        `device` is a torch device or its name. Images are tensors (rows, 1 or 3, height, width) on it with pixels in
        [0, 1]; the result is (rows, `width()`).
        """
        import torch
        from torch.nn.functional import normalize

        from privaware.features._prior.maps import preprocess
        from privaware.features._prior.rows import glyph_rows

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
        """Return the number of entries of a row."""
        return self._views().width() + (GLYPH_COLUMNS if self.glyphs else 0)

    def _views(self) -> ViewRows:
        from privaware.features._prior.rows import ViewRows

        return ViewRows(
            dictionary=self.dictionary,
            scatter=self.scatter,
            mirror=self.mirror,
            weights=str(SHIPPED) if self.weights is None else self.weights,
            statistics=str(SHIPPED_VIEWS) if self.statistics is None else self.statistics,
        )
