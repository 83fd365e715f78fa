"""Private training of any PyTorch module; layers that mix examples are refused."""

import torch
from torch import nn

import privaware

generator = torch.Generator().manual_seed(0)
inputs = torch.randn(2000, 10, generator=generator)
targets = (inputs[:, 0] + inputs[:, 1] ** 2 > 1).long()

module = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 2))
trained = privaware.train(
    module, inputs, targets, epsilon=3.0, delta=1e-5, steps=200, sampling_rate=0.1, clipping_norm=1.0, lr=2.0
)
print(f"accuracy {float((trained(inputs).argmax(1) == targets).float().mean()):.3f}")
