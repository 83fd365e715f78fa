"""A private additive model: one curve for each column, which a person can read, plot and edit.

Every column is coded by public levels (`features.codes`); a curve is a score for each level and, for numbers, a slope
and smooth waves over the levels (`_curve_basis.py`), which end in the scores. A first release gives the bias and, in a
regression, the spread of the target; gradient descent with momentum finds the curves, and the mean of the last steps is
released. `privaware.models.trees.curves` reads them off a model, with the deviation that noise gave them. With `trees`
(of depth 2), pairs of columns follow, those that a private test finds first where `pairs` pays for it. A
regression that is nearer to the targets than the mean by no more than noise is replaced by the mean.

Paper: Nori, Caruana, Bu, Shen, Kulkarni 2021, Accuracy, Interpretability, and Differential Privacy via Explainable
Boosting, arXiv:2106.09680 (DP-EBM, which boosts columns in turn; here all columns move in each step).
Privacy: (epsilon, delta) for one row added or removed: a Gaussian release for the start (three in a regression, four
with trees, and two of the check) and for each step, together one Gaussian of the given noise. A row moves those and the
check by 1. Its gradient has length at most G (1/2 for two classes, sqrt(1/2) for more, 1 for a regression: gradients of
classes are clipped) and is added to the bias, to one level of each of k categories and, times a quarter, of each of m
numbers, times three quarters of a number of at most 1 to m slopes, and to the waves of each number, whose squares add
up to at most 1: the sums move by G sqrt(1 + k + 13/8 m). They are exact in any order.
Use when: the model has to be read, or columns are skewed but do not interact.

>>> from privaware.schema import Column, Schema
>>> schema = Schema(columns=(Column(name="age", low=0, high=99),), classes=("no", "yes"), rows=1000)
>>> Additive(steps=4).cost(schema, noise=1.0)  # doctest: +ELLIPSIS
Composed(events=(Gaussian(noise=4.472...), Repeated(event=Gaussian(noise=2.051...), count=4)))
"""

from __future__ import annotations

from dataclasses import dataclass

from privaware.learners._boosting import Boosting

__all__ = ["Additive"]


@dataclass(frozen=True, kw_only=True)
class Additive(Boosting):
    """`steps` of gradient descent on the scores, and no trees unless asked for: those look at two columns."""

    trees: int = 0
    depth: int = 2
    steps: int = 120
