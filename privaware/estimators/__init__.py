"""scikit-learn estimators over `fit` and `select`: a budget in the constructor, a guarantee after `fit`.

Without a schema, the labels, the number of columns and their types are taken as declared by the
caller (`assumptions_` says so), and the bounds of the columns are paid for from the budget. With a
schema nothing is paid for bounds. What a fitted estimator carries is public: it holds no row and no
statistic without noise.

Every call of `fit` is a release of its own, so that cross-validation pays once for each fold: one `ledger`
for all of them adds it up, keeps it, and stops at its limit. Without one, a fit on rows that an earlier fit
of this process has seen warns (`privaware.errors.OverlapWarning`) with the epsilon of all of them together
and is not certified; seeded fits, which never are, do not warn. Worker processes (`n_jobs`) do not see each
other's fits, so that there a fit without a `ledger` is refused. One thing stays with the caller: a step of a
`Pipeline` before this one that learns from the rows (a scaler, a selector that is not private) is outside
the guarantee and makes other rows of them. `PrivateNormaliser` and `PrivatePCA` are paid for; an estimator that gets
real numbers without declared bounds warns once (`privaware.errors.OpenBoundsWarning`).

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(1000, 2))
>>> model = PrivateClassifier(epsilon=2.0, random_state=0).fit(X, X[:, 0] > 0)
>>> model.classes_, model.score(X, X[:, 0] > 0) > 0.8
(array([False,  True]), True)
>>> model.epsilon_ <= 2.0, model.certified_
(True, False)
"""

from __future__ import annotations

from privaware.estimators._models import PrivateClassifier, PrivateRegressor
from privaware.estimators._selector import PrivateSelector
from privaware.estimators._transformers import PrivateNormaliser, PrivatePCA

__all__ = [
    "EXPECTED_FAILED_CHECKS",
    "PrivateClassifier",
    "PrivateNormaliser",
    "PrivatePCA",
    "PrivateRegressor",
    "PrivateSelector",
]

EXPECTED_FAILED_CHECKS: dict[str, str] = {}
"""The checks of scikit-learn that privacy forces us to fail, each with its reason: none."""
