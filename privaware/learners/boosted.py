"""Private gradient boosting: an additive model first, then trees whose splits are random and whose leaves are noisy.

Every column is coded by public levels (`features.codes`). The training has four stages:

1. Bias: the frequencies of the classes, or the mean and the spread of the target. The spread is the unit of residuals.
2. Additive start: `steps` of gradient descent with momentum on one score for each level, one slope for each number and
   a few smooth cosines over the levels of each number. A regression then releases the spread of its residuals, which is
   the unit of the trees.
3. Trees: each of the `trees` has `depth` random splits, the same in all its branches. Columns with a
   larger effect in the additive start are split on more often, at no privacy cost. Each tree releases noisy sums of
   gradients and of second derivatives in its leaves. The noise regularises leaves and limits the step.
4. Regression only: outputs are corrected for a skewed target, the mean of the last residuals moves the bias, and two
   releases compare the model with a constant, the noisy mean of its outputs. If its squared error is not smaller by at
   least the noise, a constant replaces the model: the released mean of the target, moved towards that noisy mean.

Gradients of classes are clipped to half their largest length, which halves the noise. For two classes the model undoes
the effect of the clip on probabilities. Where classes are very unequal (of two, one with less than a fifth of the
rows), all steps are smaller: sums of gradients shrink with the variance of the class, and noise does not.

Paper: Friedman 2001, Greedy Function Approximation; random splits and noisy leaves after Fletcher and Islam 2017,
Differentially Private Random Decision Forests, arXiv:1606.03572; Maddock, Cormode, Wang, Maple, Jha 2022, Federated
Boosted Decision Trees with Differential Privacy, arXiv:2210.02910.
Privacy: (epsilon, delta) for one row added or removed. All releases are Gaussian, and together they are one Gaussian
release with the given noise multiplier. The sensitivity of each, in steps that can be checked:

1. A row's clipped gradient has length at most G: 1/2 for two classes, sqrt(2)/2 for more, 1 for a regression.
2. Bias, spread, last residuals and check are histograms, or sums of terms in [-1, 1]: a row moves each by at most 1.
3. A step of the additive start adds the gradient to: the bias (weight 1); one level of each of k categories (weight 1);
   one level of each of m numbers (weight 1/4); the slope of each number (weight 3/4 times a number in [-1, 1]); and the
   cosines of each number (weights whose squares sum to at most 1). The squared weights sum to at most
   1 + k + (1/16 + 9/16 + 1) m = 1 + k + 13/8 m, so a row moves the sums by at most G sqrt(1 + k + 13/8 m).
4. A tree adds the gradient, and 1/8 times a second derivative in [0, 1], to one leaf: a row moves the sums by at most
   sqrt(G^2 + 1/64).
5. Gradients are functions of one row alone, bit for bit, on a public lattice, so sums are exact in any order and the
   bounds hold for the computed sums.

Use when: columns of a table interact, and there are tens of thousands of rows or more; `fourier` for fewer rows.

>>> from privaware.schema import Column, Schema
>>> schema = Schema(columns=(Column(name="age", low=0, high=99),), classes=("no", "yes"), rows=1000)
>>> Boosted(steps=4, trees=5, share=0.5).cost(schema, noise=1.0).events[1:]  # doctest: +ELLIPSIS
(Repeated(event=Gaussian(noise=2.901...), count=4), Repeated(event=Gaussian(noise=3.244...), count=5))
>>> Boosted(monotone={"age": 1}).monotone
{'age': 1}
"""

from __future__ import annotations

from dataclasses import dataclass

from privaware.learners._boosting.trees import RandomTrees

__all__ = ["Boosted"]


@dataclass(frozen=True, kw_only=True)
class Boosted(RandomTrees):
    """A learner of an additive model followed by `trees` random trees of depth `depth`, by noisy gradient boosting.

    `skew_correction` is the strength, from 0 (none) to 1, with which the outputs for a skewed regression target are
    corrected. `RandomTrees` explains the other settings.
    """

    skew_correction: float = 0.3
