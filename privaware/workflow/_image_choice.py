"""What `auto` takes for images: a representation without privacy cost, and a linear head on it.

`image_evidence.json` holds the scores of representations on nine small sets (960 to 1,600 rows of training parts of
built-in sets, and scripts drawn from fonts), on held-out rows of them; `python -m
research.comparisons.image_choice` measures them again.

>>> from privaware.schema import Schema
>>> digits = Schema(form="image", shape=(1, 28, 28), classes=tuple("0123456789"), rows=60_000)
>>> [feature["name"] for feature in image_choice(digits, epsilon=1.0).settings["features"]]
['scatter', 'group_norm']
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from privaware.features import _public_photos
from privaware.schema import Schema
from privaware.workflow._choice import Choice

__all__ = ["gain_evidence", "image_choice", "scattering"]

EVIDENCE = Path(__file__).with_name("image_evidence.json")
"""Scores of representations, written by `python -m research.comparisons.image_choice FOLDER --ship`."""
SIDE = 32
"""Larger images are resized to this side: the columns of scattering grow with the area."""
LARGEST_SIDE = 40
SMALLEST_SIDE = 4
"""Scattering needs so many pixels a side."""
PATIENCE = 400.0
"""Seconds that features and training may take where no time limit is given."""

LARGEST_BYTES = 5e9
"""Bytes of memory for the features of all rows on a CPU."""

LARGEST_BYTES_ON_GPU = 2e10
"""Bytes of memory for the features of all rows on a GPU."""

MULTIPLICATION = 2e-10
"""Seconds for a multiplication of the head's gradient on two cores."""
STEPS = 100

CENTRED_GREY = 4_000
"""Rows x epsilon from which a private mean of scattering pays for itself."""

MANY = 40_000
"""Rows x epsilon from which twice the steps pay for themselves."""

FEWEST = 2_500
"""Rows x epsilon from which a private mean of the small prior pays for itself, and from which that is better beside
glyphs than scattering is for grey images (`image_evidence.json`)."""
SMALL_PRIOR_BELOW = 10_000
"""Rows x epsilon below which the small prior is the better one. In colour its rows have fewer directions for noise to
hide in. Grey, with 1,600 rows at epsilon 3, photographs gain 13 points by it in the place of scattering, clothes and
digits less than one, and three scripts gain 1 and lose 1 and 5; at epsilon 1 scripts lose more, and at 0.3 nearly all
but photographs lose."""
FEWEST_PHOTOGRAPHS = 1_000
"""Rows x epsilon from which the public network was measured to be better for grey images."""
FEWEST_WEIGHED = 500
"""Rows x epsilon from which weighing pays for images in colour: 288 and 960 were measured (`image_evidence.json`)."""
CENTRE = 0.05
"""The part of the budget for that mean."""
WEIGH = 0.05
"""The part of the budget that weighs the features of several networks."""
CLOSER = 0.25
"""Their clipping norm: 0.15 to 0.2 points better than 0.5 on 30,000 rows of MNIST."""
ALIKE = 0.3
"""Differences of the logarithm of rows x epsilon that are called none: sets differ in size by a little."""


@dataclass(frozen=True, kw_only=True)
class Representation:
    """Features of an image, how long one image takes on two cores and on a GPU, and how many columns it gives.

    `name` is that in the evidence, `head` are settings of the linear head.
    """

    name: str
    words: str
    features: tuple[dict[str, Any], ...]
    columns: int
    seconds: float
    gpu_seconds: float = 2e-4
    head: tuple[tuple[str, float], ...] = ()

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of `linear`."""
        return {"features": list(self.features), **dict(self.head)}

    def minutes(self, schema: Schema, device: str) -> float:
        """About how long features and head take."""
        head = self.columns * max(len(schema.classes), 1) * dict(self.head).get("steps", STEPS) * MULTIPLICATION
        each = self.gpu_seconds if device != "cpu" else self.seconds + head
        return schema.rows * each / 60


VIEWS = Representation(
    name="views of the prior",
    words="several views of an image, embedded by a network pretrained on synthetic images, with scattering and glyphs",
    features=({"name": "prior_views", "glyphs": 0.5},),
    columns=38_080,
    seconds=0.3,
    gpu_seconds=1.4e-3,
    head=(("steps", 250), ("norm", 0.25)),
)
"""The most accurate for many images on a GPU: seven views take fourteen passes of the network."""

GREY_VIEWS = replace(
    VIEWS,
    features=({"name": "prior_views", "glyphs": 0.5, "mirror": False},),
    gpu_seconds=8e-4,
    head=(*VIEWS.head, ("centre", CENTRE)),
)
"""The same for grey ones, which may be writing: without mirror images."""

SMALL_AND_GLYPHS = Representation(
    name="glyphs and small prior",
    words="features of a network pretrained on drawings of random strokes and of a "
    "small one pretrained on synthetic images",
    features=({"name": "prior", "network": "small", "glyphs": 1.0},),
    columns=2_048,
    seconds=0.0039,
    head=(("centre", CENTRE),),
)
"""For few grey images: far ahead of glyphs with scattering on those of things, and a little behind on scripts."""

GLYPHS = Representation(
    name="glyphs",
    words="a network pretrained on drawings of random strokes, with scattering",
    features=({"name": "prior", "network": "glyphs", "scatter": 0.5},),
    columns=16_576,
    seconds=0.0037,
    head=(("centre", CENTRE),),
)
"""For grey images: far ahead of scattering on scripts and digits, level with it on clothes."""

PHOTOGRAPHS = Representation(
    name="public network and glyphs",
    words="EfficientNet-Lite0, pretrained on public photographs, and a network pretrained on random strokes",
    features=({"name": "extractor", "power": 0.5, "glyphs": 0.5},),
    columns=2_304,
    seconds=0.0065,
    head=(("centre", CENTRE),),
)
"""For images in colour, where the public network is here.

Simulated in plain float32 on 2,000 rows at epsilon 0.6 / 2 with two seeds: CIFAR-10 54 / 69 and SVHN 53 / 74, where
the small prior and glyphs have 36 / 51 and 49 / 74. The network alone had 63 / 73 and 32 / 40; glyphs at its length
44 / 65 and 65 / 80; the small prior beside both, each at 0.7, 49 / 68 and 51 / 76; at 64 pixels a side, with the small
prior at 0.5, SVHN had 46 / 71 (47 / 72 at 96). On 4,000 rows of CIFAR-10 at 0.3 / 1 / 3 roots had 65 / 73 / 77, maps
as they are 63 / 73 / 76, and whitened by synthetic images 56 / 72 / 75. Maps of a middle depth
beside whitened ones had 58 / 74 / 79, and with glyphs gained nothing clear on SVHN. With 12,000 rows at 1 / 4 / 12
CIFAR-10 has 78 / 80 / 81, where the small prior and glyphs have 65 / 71 / 73, and SVHN 83 / 85 / 86, where those have
84 / 87 / 88: photographs gain more than digits lose.
"""

WEIGHED = Representation(
    name="public network, glyphs and small prior",
    words="EfficientNet-Lite0, pretrained on public photographs, and networks "
    "pretrained on random strokes and on synthetic "
    "images",
    features=({"name": "extractor", "power": 0.5, "glyphs": 0.7, "small": 0.5},),
    columns=3_328,
    seconds=0.0085,
    head=(("centre", CENTRE), ("weigh", WEIGH)),
)
"""The same with the small prior beside it, for fewer images; what each network tells apart decides what it weighs.

The lengths that parts are given count where noise hides what they tell apart. The learner itself, three seeds, at
1,000 / 3,000 rows x epsilon, with lengths of 1 for all and with these: CIFAR-10 48.3 / 67.9 and 51.8 / 69.6, SVHN 56.7
/ 78.9 and 55.5 / 78.5, sprites of a game 56.9 / 70.7 and 56.9 / 70.3, icons 49.1 and 49.5; the network with glyphs at
0.5, not weighed, has 51.6 / 69.5, 46.3 / 69.5, 55.4 / 67.4 and 46.3. What follows had lengths of 1.

Simulated in plain float32 at 3,000 rows x epsilon with three seeds, a fifth of the images (of groups that are alike,
for the first four) held out, beside the fixed lengths that were taken before (glyphs at 0.5, grey 1.4): sprites of a
game 71 (69), icons 58 (58), letters of twelve scripts by script 49 (51), spectrograms of words by language 72 (63)
(`research/comparisons/_development_image_sets.py`); CIFAR-10 69 (70), SVHN 80 (71), CIFAR-10 in grey 61 (52), clothes
81 (80), Armenian letters 59 (60), Georgian ones 66 (66).
With other constants, at 10,000: CIFAR-10 75 (75), SVHN 84 (81), spectrograms 82 (72); with these at 1,000: 48 (55),
66 (47) and 59 (46). No fixed lengths suit all: with glyphs at four times the network's SVHN has 81 and CIFAR-10 36.
What else was tried at 3,000: maps of middle depths beside or in the place of the last ones, whole or in 2 x 2 cells,
gained nothing on six sets; choosing one of three weightings by counts of training rows that each gets right took
glyphs for sprites, which know frames of one unit again and not those of another (64); the length of the noisy weights
of each part was lost in noise. A tenth of the budget for the mean, half or twice the clipping norm, and steps of 0.6 or
1.6 times the length gained less than a point on most of four sets.
"""


def _enlarged(least: Representation) -> tuple[Representation, ...]:
    """The same with images brought to more pixels a side, the most first."""
    return tuple(
        replace(
            least,
            words=f"{least.words}, from images enlarged to {size} pixels a side",
            features=(least.features[0] | {"size": size},),
            seconds=least.seconds + more,
        )
        for size, more in ((224, 0.016), (160, 0.007), (128, 0.003))
    )


ENLARGED_FEW = _enlarged(PHOTOGRAPHS)
"""`PHOTOGRAPHS` on enlarged images, up to the size that the network learned from."""

ENLARGED = _enlarged(WEIGHED)
"""`WEIGHED` on enlarged images, up to the size that the network learned from: better, and slower.

Without the small prior and not weighed, 2,000 rows at epsilon 1.5, three seeds, at 96 / 128 / 160 / 224 pixels:
CIFAR-10 69.5 / 73.7 / 75.9 / 77.7, SVHN 69.5 / 69.1 / 70.4 / 70.3, sprites of a game 67.5 / 69.7 / 69.0 / 71.8, icons
57.7 / 58.7 / 60.7 / 61.3. The mean of the rows of an image and its mirror image gained 0 to 0.8 and takes twice the
time.
"""

GREY_WEIGHED = replace(WEIGHED, features=({"name": "extractor", "power": 0.5, "glyphs": 1.8, "small": 1.0},))
"""For few grey images, which may be writing: glyphs are longer before parts are weighed."""

PHOTO_VIEWS = Representation(
    name="public network, views and glyphs",
    words="EfficientNet-Lite0, pretrained on public photographs, with several views through a network pretrained on "
    "synthetic images, and a network pretrained on random strokes",
    features=({"name": "extractor", "size": 160, "power": 0.5, "mirror": True, "glyphs": 0.45, "views": 1.35},),
    columns=39_360,
    seconds=0.35,
    gpu_seconds=1.6e-3,
    head=VIEWS.head,
)
"""The same for many images on a GPU, enlarged more.

45,000 rows at epsilon 1 / 3 / 8, 5,000 scored, one seed: CIFAR-10 has 88.2 / 89.7 / 91.0 with views of the network's
length, where views alone have 77.2 / 81.3 / 84.2 and the network with glyphs 87.4 / 88.4 / 89.3 (at 96 pixels a side
82.5 / 83.8 / 85.0). SVHN has 86.7 / 89.5 / 90.8 with that at 96 pixels, and with views of twice the length 87.8 / 89.9
/ 91.2, where views alone have 88.3 / 90.3 / 91.3 and the network with glyphs 86.8 / 88.4 / 89.1: a length between.
"""

PUBLIC = (
    "This network was trained on the photographs of ImageNet. If they contain images of this data "
    "set, the guarantee does "
    "not cover what the network learned from them. To train without it: --features prior,network=small,glyphs=0.5."
)


def image_choice(
    schema: Schema, epsilon: float, *, device: str = "cpu", time_limit: float | None = None, network: bool | None = None
) -> Choice:
    """The best representation that is fast enough, with a linear head.

    `network` says whether the public network is here; left out, it is looked for.
    """
    limit = PATIENCE if time_limit is None else time_limit
    known = representations(schema, epsilon)
    if device != "cpu" and known[0].name != "pixels" and schema.rows * epsilon >= SMALL_PRIOR_BELOW:
        known = [*{1: [GREY_VIEWS], 3: [VIEWS]}.get(schema.shape[0], []), *known]
    here = _public_photos.installed() if network is None else network
    public = with_photographs(schema, epsilon, device)
    if here:
        known = [*public, *known]
    memory = LARGEST_BYTES if device == "cpu" else LARGEST_BYTES_ON_GPU
    fitting = [
        each
        for each in known
        if 60 * each.minutes(schema, device) <= limit and 4 * schema.rows * each.columns <= memory
    ]
    best = fitting[0] if fitting else min(known, key=lambda each: each.seconds)
    settings = best.settings
    if not schema.classes:
        settings.pop("weigh", None)  # there is nothing to tell apart
    minutes = best.minutes(schema, device)
    took = f"about {math.ceil(60 * minutes)} s" if minutes < 2 else f"about {minutes:.0f} minutes"
    where = "two cores" if device == "cpu" else device
    reasons = [f"Learner: linear on {best.words}. It takes {took} on {where}."]
    if best is not known[0]:
        longer = known[0].minutes(schema, device)
        reasons.append(f"More accurate: {known[0].words}. It takes about {longer:.0f} minutes; see --time-limit.")
    if "centre" in settings:
        reasons.append(
            f"{settings['centre']:.0%} of the budget estimates the mean of the features, which is subtracted."
        )
    if "weigh" in settings:
        reasons.append(
            f"{settings['weigh']:.0%} of the budget weights each network by how well it separates the classes."
        )
    if best in public:
        reasons.append(PUBLIC)
    missed = [each for each in public if not here and 60 * each.minutes(schema, device) <= limit]
    if missed:
        reasons.append(f"More accurate, but not installed: {missed[0].words}. To install it: {_public_photos.INSTALL}")
    if best.name != "pixels":
        reasons.append(_measured_gain(best, schema, epsilon))
    return Choice(learner="linear", settings=settings, reasons=tuple(reasons))


def _measured_gain(best: Representation, schema: Schema, epsilon: float) -> str:
    """Return the sentence of the plan about the accuracy of a representation in benchmarks."""
    if best is PHOTO_VIEWS:
        return (
            "On CIFAR-10 at epsilon 1 to 8, the public network with views was 7 to 11 points better than "
            "views alone. On "
            "SVHN it was up to 2 points worse (docs/results/prior.md)."
        )
    if best is VIEWS:
        return (
            "On CIFAR-10 at epsilon 1 to 8, several views were 3 to 4 points better "
            "than one view (docs/results/prior.md)."
        )
    if best is GREY_VIEWS:
        return (
            "On Fashion-MNIST at epsilon 1 and 3, views were 2 points better than glyphs with scattering. "
            "On MNIST, adding "
            "glyphs to views gained half a point (docs/results/prior.md)."
        )
    return gain_evidence(best.name, schema, epsilon)


def with_photographs(schema: Schema, epsilon: float, device: str) -> tuple[Representation, ...]:
    """What the public network gives beside the priors, where that was better than they are without it; best first."""
    channels, height, width = schema.shape
    if min(height, width) < SMALLEST_SIDE or channels not in (1, 3):
        return ()
    signal = schema.rows * epsilon
    if channels == 1:
        return (GREY_WEIGHED,) if FEWEST_PHOTOGRAPHS <= signal < SMALL_PRIOR_BELOW else ()
    if signal < FEWEST_WEIGHED:
        return (*ENLARGED_FEW, PHOTOGRAPHS)
    return (*ENLARGED, WEIGHED, PHOTOGRAPHS) if device == "cpu" or signal < MANY else (PHOTO_VIEWS,)


def representations(schema: Schema, epsilon: float) -> list[Representation]:
    """What suits these images, the most accurate first."""
    channels, height, width = schema.shape
    if min(height, width) < SMALLEST_SIDE:
        return [_pixels(schema)]
    signal = schema.rows * epsilon
    grey = channels == 1
    head: tuple[tuple[str, float], ...] = (("centre", CENTRE),) if grey and signal >= CENTRED_GREY else ()
    wavelets = replace(scattering(schema), head=head)
    if grey and signal >= MANY:
        return [GLYPHS, replace(wavelets, head=(*head, ("steps", 2 * STEPS), ("norm", CLOSER))), wavelets]
    if grey:
        return [SMALL_AND_GLYPHS, GLYPHS, wavelets] if FEWEST <= signal < SMALL_PRIOR_BELOW else [GLYPHS, wavelets]
    if channels != 3:
        return [wavelets]
    small, large = _prior("small"), _prior("large")
    if signal >= SMALL_PRIOR_BELOW:
        return [large, small, wavelets]
    centred = replace(small, head=(("centre", CENTRE),)) if signal >= FEWEST else small
    return [centred, large, wavelets]


@cache
def _evidence() -> list[dict[str, Any]]:
    return list(json.loads(EVIDENCE.read_text(encoding="utf-8")))


def gain_evidence(name: str, schema: Schema, epsilon: float) -> str:
    """What our own studies say of a representation, on images of as many colours at the nearest rows and epsilon.

    Scattering is compared with pixels, a prior with scattering, the public network with the small prior and glyphs, a
    mean of the rows bought for both.
    """
    grey = schema.shape[0] == 1
    base, head = "pixels" if name == "scattering" else "scattering", ""
    if name in (PHOTOGRAPHS.name, WEIGHED.name):
        base, head = SMALL_AND_GLYPHS.name if grey else _prior("small").name, ", centred"
    own = name + (", weighed" if name == WEIGHED.name else head)
    measured = [record for record in _evidence() if {own, base + head} <= set(record["scores"])]
    alike = [record for record in measured if (record["colours"] == 1) == grey]

    def distance(record: dict[str, Any]) -> float:
        return abs(math.log(record["rows"] * record["epsilon"] / (schema.rows * epsilon)))

    nearest = min(alike, key=distance)
    records = [r for r in alike if r["epsilon"] == nearest["epsilon"] and abs(distance(r) - distance(nearest)) < ALIKE]
    gains = sorted(100 * (record["scores"][own] - record["scores"][base + head]) for record in records)
    better = sum(gain > 0 for gain in gains)
    return (
        f"In benchmarks with {nearest['rows']:,} rows at epsilon {nearest['epsilon']:g}, a linear "
        f"model on {name} was better "
        f"than on {base} on {better} of {len(gains)} image sets; the difference was {gains[0]:.0f} to "
        f"{gains[-1]:.0f} points."
    )


def _prior(network: str) -> Representation:
    """The large prior over an image and its mirror image, with scattering, or the small one; glyphs beside them."""
    words = "features of networks pretrained on synthetic images and glyphs"
    feature: dict[str, Any] = {"name": "prior", "glyphs": 0.5}
    columns, seconds = (21_696, 0.021) if network == "large" else (2_048, 0.0039)
    if network == "large":
        words, feature = f"{words}, with scattering", feature | {"scatter": 1.0}
    else:
        words, feature = f"{words} (the small one)", feature | {"network": "small"}
    return Representation(
        name=f"{network} prior and glyphs", words=words, features=(feature,), columns=columns, seconds=seconds
    )


def scattering(schema: Schema) -> Representation:
    """Wavelet scattering, each group of its maps normalised within the image."""
    channels, height, width = schema.shape
    resized = max(height, width) > LARGEST_SIDE
    side, other = (SIDE, SIDE) if resized else (height, width)
    features: list[dict[str, Any]] = [{"name": "resize", "side": SIDE}] if resized else []
    features += [{"name": "scatter"}, {"name": "group_norm", "groups": 27}]
    return Representation(
        name="scattering",
        words="wavelet scattering",
        features=tuple(features),
        columns=channels * 81 * (side // 4) * (other // 4),
        seconds=0.0006 * channels * (side * other / 784 + 0.2),
    )


def _pixels(schema: Schema) -> Representation:
    return Representation(
        name="pixels", words="pixels", features=({"name": "pixels"},), columns=math.prod(schema.shape), seconds=1e-5
    )
