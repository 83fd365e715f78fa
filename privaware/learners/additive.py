"""A private additive model: one curve for each column, which a person can read, plot and edit.

Every column is coded by public levels (`features.codes`). A curve is a score for each level and, for a number, a slope
and smooth cosines over its levels, which are added to the scores. The first releases give the bias and, in a
regression, the spread of the target. Gradient descent with momentum finds the curves: each step is released, and the
model is the mean of the last half of the steps. `privaware.models.trees.curves` reads the curves off a model, with the
standard deviation that noise gave them. Where classes are very unequal (of two, one with less than a fifth of the
rows), all steps are smaller. With `trees` (of depth 2), random pairs of columns follow. A regression is compared with a
constant, the noisy mean of its outputs. If its squared error is not smaller by at least the noise, a constant replaces
the model: the released mean of the target, moved towards that noisy mean.

Paper: Nori, Caruana, Bu, Shen, Kulkarni 2021, Accuracy, Interpretability, and Differential Privacy via Explainable
Boosting, arXiv:2106.09680 (DP-EBM, which boosts columns in turn; here all columns move in each step).
Privacy: (epsilon, delta) for one row added or removed. All releases are Gaussian, and together they are one Gaussian
release with the given noise multiplier. The sensitivity of each, in steps that can be checked:

1. A row's clipped gradient has length at most G: 1/2 for two classes, sqrt(2)/2 for more, 1 for a regression.
2. Bias, spread, last residuals and check are histograms, or sums of terms in [-1, 1]: a row moves each by at most 1.
3. A step adds the gradient to: the bias (weight 1); one level of each of k categories (weight 1); one level of each of
   m numbers (weight 1/4); the slope of each number (weight 3/4 times a number in [-1, 1]); and the cosines of each
   number (weights whose squares sum to at most 1). The squared weights sum to at most
   1 + k + (1/16 + 9/16 + 1) m = 1 + k + 13/8 m, so a row moves the sums by at most G sqrt(1 + k + 13/8 m).
4. A tree, where there are any, adds the gradient and 1/8 times a second derivative in [0, 1] to one leaf: a row moves
   the sums by at most sqrt(G^2 + 1/64).
5. Gradients are functions of one row alone, bit for bit, on a public lattice, so sums are exact in any order and the
   bounds hold for the computed sums.

Use when: the model has to be read, or columns are skewed but do not interact.

>>> from privaware.schema import Column, Schema
>>> schema = Schema(columns=(Column(name="age", low=0, high=99),), classes=("no", "yes"), rows=1000)
>>> Additive(steps=4).cost(schema, noise=1.0)  # doctest: +ELLIPSIS
Composed(events=(Gaussian(noise=4.472...), Repeated(event=Gaussian(noise=2.051...), count=4)))
"""

from __future__ import annotations

from dataclasses import dataclass

from privaware.learners._boosting.trees import RandomTrees

__all__ = ["Additive"]


@dataclass(frozen=True, kw_only=True)
class Additive(RandomTrees):
    """A learner of an additive model, by `steps` steps of noisy gradient descent.

    If `trees` is above 0, as many random trees follow; by default there are none. A tree of depth 2 reads at most two
    columns. `RandomTrees` explains the other settings.
    """

    trees: int = 0
    depth: int = 2
    steps: int = 120
