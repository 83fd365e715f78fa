"""A file of weights for the prior that is small enough to train with: an untrained network of three blocks."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np


@lru_cache
def tiny_prior() -> dict[str, object]:
    """Settings of the feature `prior` that use such a file; it is removed when Python ends."""
    from privaware.features._prior.maps import backbone
    from research.pretraining.images import SyntheticImages
    from research.pretraining.prior_statistics import measure
    from research.pretraining.weights_files import save_prior

    folder = Path(tempfile.mkdtemp(prefix="privaware-tiny-prior-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    network = backbone(10, 1, np.random.default_rng(1), stride=8)
    source = SyntheticImages(seed=3, size=24, generators=2, each=4)
    statistics = measure(network, source, rows=64, first=9, depths=(0, 2), pools=(2, 1), normed=False)
    save_prior(
        folder / "prior.safetensors", network, statistics, None, False, {"depth": "10", "width": "1", "stride": "8"}
    )
    return {"weights": str(folder / "prior.safetensors"), "depths": [0, 2], "pools": [2, 1]}
