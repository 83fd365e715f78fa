"""A training loop of your own: `clipped_sum` gives the sum that noise is added to, the accountant gives its price.

Nothing is charged here: put the price into a ledger yourself, or use `privaware.train`. Sums are rounded in float32;
`privaware.train` proves a bound for that rounding and covers it with noise, and this loop does not.
"""

import torch
from torch import nn

from privaware import accounting
from privaware.descent import clipped_sum, cross_entropy
from privaware.events import Gaussian
from privaware.noise import Rng

ROWS = 2000
RATE = 0.1
STEPS = 100
NORM = 1.0
LR = 2.0
generator = torch.Generator().manual_seed(0)
inputs = torch.randn(ROWS, 10, generator=generator)
targets = (inputs[:, 0] > 0).long()
module = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 2))


def price(noise: float) -> object:
    return STEPS * Gaussian(noise=noise).sampled(rate=RATE)


noise = accounting.calibrate(price, 2.0, 1e-5)
rng = Rng()
for _ in range(STEPS):
    batch = torch.from_numpy(rng.poisson(ROWS, RATE))
    sums, _ = clipped_sum(module, cross_entropy, inputs[batch], targets[batch], NORM)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            gradient = rng.gaussian(sums[name], noise=noise, sensitivity=NORM)
            parameter -= LR * gradient / (RATE * ROWS)  # a public number, never the size of this batch
print(f"noise multiplier {noise:.3f}: epsilon {accounting.epsilon(price(noise), 1e-5):.3f}")
print(f"accuracy {float((module(inputs).argmax(1) == targets).float().mean()):.3f}")
