"""Max pooling over 2 x 2 blocks by one GPU kernel, which needs less memory and time than PyTorch's."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from privaware.kernels import elementwise
from privaware.models._dpnas.cell_graph import BlockMaxima


def is_max_pool_2x2(layer: nn.Module) -> bool:
    """Return whether the layer is plain max pooling over adjacent blocks of 2 x 2."""
    return (
        type(layer) is nn.MaxPool2d
        and all(size in (2, (2, 2)) for size in (layer.kernel_size, layer.stride))
        and layer.padding in (0, (0, 0))
        and layer.dilation in (1, (1, 1))
        and not layer.ceil_mode
        and not layer.return_indices
    )


def max_pool_2x2(inputs: Tensor) -> Tensor:
    """Return the maxima of 2 x 2 blocks of `inputs` (n, channels, height, width); drop an odd last line or column."""
    if inputs.ndim == 4 and inputs.numel() and elementwise.fits(inputs):
        return BlockMaxima.apply(inputs.contiguous())
    return F.max_pool2d(inputs, 2)
