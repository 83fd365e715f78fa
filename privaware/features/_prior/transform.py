"""Code that the features of the prior share: images in microbatches, and whitened scattering coefficients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from privaware.errors import WrongInput
from privaware.features._prior.scattering import scattering
from privaware.features._prior.shipped import scattering_whitening

__all__ = ["in_microbatches", "whitened_scattering"]


def in_microbatches(
    name: str,
    x: Any,
    transform_on: Callable[[Any], Callable[[Tensor], Tensor]],
    width: int,
    microbatch: Mapping[str, int],
) -> Any:
    """Return rows of `width` entries computed by `transform_on(device)`; a tensor stays a tensor on its device.

    An array is transformed on a GPU if there is one, and gives an array. `microbatch` is the number of images at a time
    for each type of device. `name` is the feature's name in errors. Raise `WrongInput` unless `x` is (rows, 1 or 3,
    height, width).
    """
    if x.ndim != 4 or x.shape[1] not in (1, 3) or not all(x.shape[2:]):
        raise WrongInput(f"{name}: expected images of shape (rows, 1 or 3, height, width), got {tuple(x.shape)}")
    tensor = isinstance(x, Tensor)
    device = x.device if tensor else ("cuda" if torch.cuda.is_available() else "cpu")
    transform = transform_on(device)
    size = microbatch.get(torch.device(device).type, microbatch["cpu"])
    out = torch.empty(len(x), width, device=device if tensor else "cpu")
    for at in range(0, len(x), size):
        out[at : at + size] = transform(torch.as_tensor(x[at : at + size]).to(device, torch.float32))
    return out if tensor else out.numpy()


def whitened_scattering(file: str, power: float, mirror: bool, device: str) -> Callable[[Tensor], Tensor]:
    """Return the function from images of `preprocess` to scattering coefficients, whitened by statistics in `file`.

    `power` is the exponent of the whitening. With `mirror` coefficients are averaged over an image and its mirror
    image.
    """
    scatter, whitening = scattering(device), scattering_whitening(file, power, device)

    def transform(inputs: Tensor) -> Tensor:
        images = (inputs + 1) / 2
        coefficients = scatter(images)
        return whitening((coefficients + scatter(images.flip(3))) / 2 if mirror else coefficients)

    return transform
