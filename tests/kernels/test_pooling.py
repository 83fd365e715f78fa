"""Max pools of 2 x 2 blocks by a kernel are PyTorch's, forwards and backwards.

The kernel runs on a GPU, or on a CPU in Triton's interpreter where Triton is installed: TRITON_INTERPRET=1 pytest ...
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from privaware.descent._layers.pooling import max_pool_2x2
from privaware.kernels import elementwise

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
kernel = pytest.mark.cuda(instead="triton")


@kernel
@pytest.mark.parametrize("shape", [(3, 5, 8, 8), (2, 3, 7, 9), (1, 40, 6, 4), (2, 1, 2, 3)])
@pytest.mark.parametrize("ties", [False, True])
def test_max_pool_2x2_is_that_of_pytorch(shape, ties, monkeypatch):
    monkeypatch.setattr(elementwise, "fits", lambda *tensors: True)
    x = torch.randint(3, shape).float() if ties else torch.randn(shape)
    actual, want = (x.to(DEVICE).requires_grad_(), x.clone().requires_grad_())
    outputs, expected = max_pool_2x2(actual), F.max_pool2d(want, 2)
    assert type(outputs.grad_fn).__name__ == "BlockMaximaBackward"
    g = torch.randn_like(expected)
    assert torch.equal(outputs.cpu(), expected)
    back = torch.autograd.grad(outputs, actual, g.to(DEVICE))[0]
    assert torch.equal(back.cpu(), torch.autograd.grad(expected, want, g)[0])
