"""How large the tensors of a computation are."""

from __future__ import annotations

import torch


class LargestTensor(torch.utils._python_dispatch.TorchDispatchMode):
    """The numbers of the largest tensor that any operation returns."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for item in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(item, torch.Tensor):
                self.numbers = max(self.numbers, item.numel())
        return result
