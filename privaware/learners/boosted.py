"""Private gradient boosting: scores of levels first, then trees whose splits are random, or random waves.

Every column is coded by public levels (`features.codes`). A first release gives the bias and, in a regression, the
spread of the target, which is the unit of residuals. The `steps` are gradient descent with momentum on one score a
level, one slope a number and smooth waves over its levels (`_curve_basis.py`), an additive model. A regression then
releases the spread of what is left, which is the unit of the trees. Each of the `trees` splits at random columns and
levels, more often at those columns that the start found strong, which costs nothing, and releases noisy sums of
gradients and of second derivatives in its leaves. Leaves are regularised by the noise, and steps are no larger than
public facts (rows, noise, trees) allow. With `pairs` above 0, that part of the trees' budget buys a test of which
columns act together, and three trees in four split on such a pair (`_splits.py`). With `waves` above 0 and no trees,
what columns do together is learnt by gradient descent on so many cosines of random sums of one to four columns, strong
ones more often, measured from their private mean (`_wave_sums.py`); with trees, too, both have half of the budget after
the start. Gradients of classes are clipped to half their largest length, which halves the noise: of two classes the
model knows what its chances stand for, of more the frequent ones gain. Outputs of a skewed target are bent upwards far
from its mean (`_bending.py`), which costs nothing, before what is left is released. The last two releases of a
regression are the mean of its outputs, which is weighed with that of the start, and how much nearer to the targets they
are than their mean: if that is no more than noise, the model is the mean.

Paper: Friedman 2001, Greedy Function Approximation; random splits and noisy leaves after Fletcher and Islam 2017,
Differentially Private Random Decision Forests, arXiv:1606.03572; Maddock, Cormode, Wang, Maple, Jha 2022, Federated
Boosted Decision Trees with Differential Privacy, arXiv:2210.02910. Waves: Rahimi and Recht 2007, Random Features for
Large-Scale Kernel Machines.
Privacy: (epsilon, delta) for one row added or removed: one Gaussian release for the bias (five in a regression, and two
of the check), each step and each tree, together one Gaussian of the given noise. A row moves those and the check by 1.
Its gradient has length at most G (1/2 for two classes, sqrt(1/2) for more, 1 for a regression). It is added to the
bias, to one level of each of k categories and, times a quarter, of each of m numbers, times three quarters of a number
of at most 1 to m slopes, and to the waves of each number, whose squares add up to at most 1: this moves a step's sums
by G sqrt(1 + k + 13/8 m). It is added to one leaf, with its second derivative times an eighth, which moves a tree's
sums by sqrt(G^2 + 1/64). For the test of p pairs it is added to a cell of each, one release that moves by G sqrt(p).
A row of waves has length at most 1: it moves the release of their mean by 1, and each of 100 steps by G.
Gradients are functions of a row alone, bit for bit, on a public lattice, so their sums are exact in any order.
Use when: columns of a table are skewed or interact, and rows are thousands or more.

>>> from privaware.schema import Column, Schema
>>> schema = Schema(columns=(Column(name="age", low=0, high=99),), classes=("no", "yes"), rows=1000)
>>> Boosted(steps=4, trees=5, share=0.5).cost(schema, noise=1.0).events[1:]  # doctest: +ELLIPSIS
(Repeated(event=Gaussian(noise=2.901...), count=4), Repeated(event=Gaussian(noise=3.244...), count=5))
>>> Boosted(monotone={"age": 1}).monotone
{'age': 1}
"""

from __future__ import annotations

from dataclasses import dataclass

from privaware.learners._boosting import Boosting

__all__ = ["Boosted"]


@dataclass(frozen=True, kw_only=True)
class Boosted(Boosting):
    """`trees` of a `depth`, after an additive start where it pays; outputs of a skewed target are bent."""

    bend: float = 0.3
