"""Frozen features of a network pretrained on synthetic images from random processes, and on nothing else.

A wide residual network was pretrained by contrastive learning on synthetic textures and dead leaves (no photograph, no
row of any data set). The package contains its weights, the seed and the command that computed them. An image is resized
to 32 x 32. Feature maps at several depths are rectified, averaged to a few points each, whitened by the covariance of
synthetic images and scaled to norm `norm`. Adding scattering, `Prior(scatter=1.0)`, improves the features.

Paper: Baradad et al. 2021, Learning to See by Looking at Noise, arXiv:2106.05963, for learning from noise; Tang et al.
2023, Differentially Private Image Classification by Learning Priors from Random Processes, arXiv:2306.06076, for its
use under privacy. Depths, whitening and the linear head are this package's: see docs/results/prior.md.
Privacy: no privacy cost (data-independent): weights fixed beforehand transform each row by itself.
Use when: the data are images, grey or in colour. For digits, letters and signs take `Prior(network="glyphs")`, a small
network that was trained to recognise drawings of random strokes (`research/pretraining/glyphs.py`; no font, no letter,
no row of any data set). For other images take the default, `Prior(network="large")`; with a GPU take `prior_views`.

>>> Prior(depths=(3, 5), pools=(4, 1)).width()
2304

A private linear model on it: `fit(..., learner="linear", settings={"features": [{"name": "prior", "scatter": 1.0}]})`.
Without a GPU use `{"name": "prior", "network": "small"}`: a network distilled from the large one on the same synthetic
images. It predicts the features of the large network in a tenth of the time (1.9 milliseconds for an image on two
processor cores, without scattering) and loses one to three percentage points of accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privaware._validate import expect, expect_between, expect_one_of, expect_positive
from privaware.errors import WrongInput
from privaware.features._prior.shipped import (
    GLYPH_COLUMNS,
    SHIPPED,
    SHIPPED_GLYPHS,
    SHIPPED_SMALL,
    expected_checksum,
    stored_student,
    stored_weights,
    stored_whitening,
)
from privaware.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor

    from privaware.features._prior.whitening import Whitening

__all__ = ["Prior"]

MICROBATCH = {"cpu": 128, "cuda": 2048}
"""Number of images transformed at a time, by kind of device."""


@dataclass(frozen=True)
class _Network:
    """A shipped network: its file, its `shape`, and the defaults of `depths`, `pools` and `mirror` in `Prior`.

    `shape` is depth and width of the wide residual network. The small network is of another kind: its `shape` is
    (0, 0), and it has no `depths`.
    """

    file: Path
    shape: tuple[int, int]
    depths: tuple[int, ...]
    pools: tuple[int, ...]
    mirror: bool

    @property
    def predicts(self) -> bool:
        """Whether this is the small network, which was trained to predict the features of `NETWORKS["large"]`.

        It has no feature maps from which `depths` could choose.
        """
        return not self.depths


NETWORKS = {
    "large": _Network(SHIPPED, (16, 4), (1, 3, 4, 5), (4, 4, 2, 2), True),
    "small": _Network(SHIPPED_SMALL, (0, 0), (), (), False),
    "glyphs": _Network(SHIPPED_GLYPHS, (10, 4), (2,), (2,), False),
}
"""The shipped networks by name."""


@dataclass(frozen=True, kw_only=True)
class Prior:
    """Features of a network that was pretrained on synthetic images.

    An image is resized to 32 x 32. Feature maps of the network at several depths are rectified, averaged over a coarse
    grid, whitened by statistics of synthetic images, and scaled to a given norm. Where `depths`, `pools` or `mirror`
    are left out, they follow from `network`.

    Parameters
    ----------
    network : str
        "large", "small" or "glyphs". The small network has neither depths nor pools, and its rows are already whitened.
    depths : tuple of int
        Numbers of the residual blocks, from 0, whose feature maps are used.
    pools : tuple of int
        For each depth, the side of the grid to which the map is averaged.
    whiten : float
        Exponent of the whitening, from 0 (none) to 0.5 (all directions get the same variance).
    mirror : bool, optional
        Whether features are averaged over an image and its mirror image. Scattering beside the small network is always
        averaged so, and the block of `glyphs` never.
    normed : bool
        Whether maps are taken after the next group norm.
    scatter : float
        Norm of the block of whitened scattering coefficients, where the network's block has norm 1; 0 leaves it out.
    glyphs : float
        Norm of the block of features of the network for glyphs, where the block of `network` has norm 1; 0 leaves it
        out.
    norm : float
        L2 norm of a whole row, to which the blocks together are scaled.
    weights : str, optional
        A file written by `privaware reproduce ours/prior/weights`, used instead of the shipped weights.
    checksum : str, optional
        Checksum of the shipped weights, so that a model refuses other weights with `WrongInput`. None stands for the
        checksum of the installed version.
    """

    network: str = "large"
    depths: tuple[int, ...] = ()
    pools: tuple[int, ...] = ()
    whiten: float = 0.3
    mirror: bool | None = None
    normed: bool = False
    scatter: float = 0.0
    glyphs: float = 0.0
    norm: float = 1.0
    weights: str | None = None
    checksum: str | None = None

    def __post_init__(self) -> None:
        expect_one_of("prior", tuple(NETWORKS), network=self.network)
        network = NETWORKS[self.network]
        for name in ("depths", "pools"):
            object.__setattr__(self, name, tuple(getattr(self, name) or getattr(network, name)))
        if self.mirror is None:
            object.__setattr__(self, "mirror", network.mirror)
        shipped = [network.file] * (self.weights is None) + [SHIPPED_GLYPHS] * bool(self.glyphs)
        if shipped:
            object.__setattr__(self, "checksum", expected_checksum(self.checksum, *shipped))
        expect_between("prior", 0, 0.5, whiten=self.whiten)
        expect_between("prior", 0, 100, scatter=self.scatter, glyphs=self.glyphs)
        expect_positive("prior", norm=self.norm)
        if network.predicts:
            chosen = [
                name for name in ("depths", "pools", "whiten", "normed") if getattr(self, name) != _DEFAULTS[name]
            ]
            expect(not chosen, "prior", "no choice of maps for the small network, whose rows come whitened", chosen)
            return
        integers = all(type(v) is int and v >= 0 for v in (*self.depths, *self.pools))
        rising = bool(self.depths) and sorted(set(self.depths)) == list(self.depths)
        expect(integers and rising, "prior", "depths as rising whole numbers", self.depths)
        fitting = len(self.pools) == len(self.depths) and all(1 <= pool <= 8 for pool in self.pools)
        expected = f"pools as one whole number from 1 to 8 for each of {len(self.depths)} depths"
        expect(fitting, "prior", expected, self.pools)

    @classmethod
    def from_description(cls, **described: Any) -> Prior:
        """Return the feature with the settings `described`; the setting `size` is the former name of `network`.

        Raise `WrongInput` if the model was fitted with shipped weights before checksums were stored.
        """
        if "size" in described:  # the former name of the field
            described["network"] = described.pop("size")
        complete = {"depths", "pools", "whiten", "mirror", "normed", "scatter", "norm"} <= set(described)
        if complete and described.get("weights") is None and "checksum" not in described:
            raise WrongInput(
                "prior: this model names no checksum of its weights, so it was fitted with weights that this version "
                "does not ship any more; fit it again"
            )
        return cls(**described)

    def __call__(self, x: Any, schema: Schema | None = None) -> Any:
        """Return the features (rows, width) of the images `x` (rows, 1 or 3, height, width), with pixels in [0, 1].

        A tensor gives a tensor on the same device. An array gives an array, computed on a GPU if there is one.
        """
        from privaware.features._prior.rows import in_microbatches

        return in_microbatches("prior", x, self.on, self.width(), MICROBATCH)

    def on(self, device: Any) -> Callable[[Tensor], Tensor]:
        """Return the function from one microbatch of images to feature rows, with all weights on `device`.

        `device` is a torch device or its name. Images are tensors (rows, 1 or 3, height, width) on it with pixels in
        [0, 1]; the result is (rows, `width()`).
        """
        import torch
        from torch.nn import functional

        from privaware.features._prior.maps import preprocess
        from privaware.features._prior.rows import glyph_rows, whitened_scattering

        parts = [(1.0, self.network_features(device))]
        if self.scatter:
            file = str(SHIPPED) if self._predicts else self.file
            mirror = self._predicts or bool(self.mirror)
            parts.append((self.scatter, whitened_scattering(file, self.whiten, mirror, str(device))))
        if self.glyphs:
            parts.append((self.glyphs, glyph_rows(device)))

        @torch.no_grad()
        def transform(images: Tensor) -> Tensor:
            inputs = preprocess(images)
            rows = [weight * functional.normalize(part(inputs), dim=1) for weight, part in parts]
            return self.norm * functional.normalize(torch.cat(rows, 1), dim=1)

        return transform

    def network_features(self, device: Any) -> Callable[[Tensor], Tensor]:
        """Return the function from preprocessed images to rows of the network, not yet normalised.

        Images are (rows, 3, 32, 32) in [-1, 1]. Rows are feature maps, whitened unless `whiten` is 0; the small network
        predicts such rows. All weights are on `device`.
        """
        import torch

        from privaware.features._prior.maps import pooled_maps

        if self._predicts:
            predicted = stored_student(self.file, str(device)).features
            return (lambda x: (predicted(x) + predicted(x.flip(3))) / 2) if self.mirror else predicted
        self.width()  # raises for depths that the network does not have
        network = stored_weights(self.file, str(device)).network
        whitening = self._whitening(str(device))

        def transform(inputs: Tensor) -> Tensor:
            maps = pooled_maps(network, inputs, self.depths, self.pools, mirror=bool(self.mirror), normed=self.normed)
            return whitening(maps) if whitening else torch.cat([m.flatten(1) for m in maps], 1)

        return transform

    def width(self, schema: Schema | None = None) -> int:
        """Return the number of entries of a row; `schema` is not used.

        Raise `WrongInput` if the last of `depths` is beyond the residual blocks of the network.
        """
        from privaware.features._prior.maps import channels_at
        from privaware.features._prior.scattering import COLUMNS

        beside = (COLUMNS if self.scatter else 0) + (GLYPH_COLUMNS if self.glyphs else 0)
        if self._predicts:
            return beside + stored_student(self.file, "cpu").shape.columns
        depth, width = (
            NETWORKS[self.network].shape if self.weights is None else stored_weights(self.file, "cpu").shape[:2]
        )
        channels = channels_at(depth, width)
        if self.depths[-1] >= len(channels):
            raise WrongInput(f"prior: expected depths from 0 to {len(channels) - 1}, got {self.depths!r}")
        entries = sum(channels[at] * p**2 for at, p in zip(self.depths, self.pools, strict=True))
        return entries + beside

    def architecture(self, outputs: int) -> dict[str, Any]:
        """Return the description, for `privaware.models.build`, of a network with `outputs` outputs on these features.

        `network_tensors` returns its weights. Raise `WrongInput` for the small network, and unless the features are
        whitened maps alone, without `scatter`, `glyphs` and `normed`.
        """
        if self._predicts:
            raise WrongInput("prior: expected network=large or network=glyphs to train the network, got network=small")
        if self.scatter or self.glyphs or self.normed or not self.whiten:
            raise WrongInput(
                "prior: expected scatter and glyphs 0, normed false and whiten above 0 to train the network, because "
                "only whitened maps can be trained on"
            )
        depth, width, stride = stored_weights(self.file, "cpu").shape
        described = {"name": "multi_depth", "inputs": [3, 32, 32], "outputs": outputs, "depth": depth, "width": width}
        return described | {"stride": stride, "depths": list(self.depths), "pools": list(self.pools)}

    def network_tensors(self) -> dict[str, Tensor]:
        """Return the tensors of `architecture`: pretrained weights and whitening, but not the output layer.

        `whiten` must be above 0.
        """
        whitening = self._whitening("cpu")
        assert whitening is not None
        network = stored_weights(self.file, "cpu").network.state_dict()
        tensors = {name: value.clone().contiguous() for name, value in network.items()}
        return tensors | {f"whitened.{name}": value for name, value in whitening.tensors(self.pools).items()}

    @property
    def _predicts(self) -> bool:
        return NETWORKS[self.network].predicts

    @property
    def file(self) -> str:
        """The path of the weights."""
        return str(NETWORKS[self.network].file) if self.weights is None else self.weights

    def _whitening(self, device: str) -> Whitening | None:
        if not self.whiten:
            return None
        if self.normed != stored_weights(self.file, "cpu").normed:
            raise WrongInput(
                f"prior: the stored statistics are of maps with normed={not self.normed}; set it so, or whiten to 0"
            )
        return stored_whitening(self.file, self.depths, self.pools, self.whiten, device)


_DEFAULTS = {field.name: field.default for field in fields(Prior)}
"""Default of each field of `Prior`."""
