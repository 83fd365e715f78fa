"""scikit-learn estimators over `fit` and `select`: a budget in the constructor, a guarantee after `fit`.

Without a schema, the labels, the number of columns and their types are taken as declared by the
caller (`assumptions_` says so), and the bounds of the columns are paid for from the budget. With a
schema nothing is paid for bounds. What a fitted estimator carries is public: it holds no row and no
statistic without noise.

Two things stay with the caller. Every call of `fit` is a release of its own, so that cross-validation
pays once for each fold: one `ledger` for all of them adds it up and stops at its limit. And a step of
a `Pipeline` before this one that learns from the rows (a scaler, a selector that is not private) is
outside the guarantee.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(400, 2))
>>> model = PrivateClassifier(epsilon=2.0, random_state=0).fit(X, X[:, 0] > 0)
>>> model.classes_, model.score(X, X[:, 0] > 0) > 0.8
(array([False,  True]), True)
>>> model.epsilon_ <= 2.0, model.certified_
(True, False)
"""

from __future__ import annotations

from privaware.estimators._models import PrivateClassifier, PrivateRegressor
from privaware.estimators._selector import PrivateSelector

__all__ = ["EXPECTED_FAILED_CHECKS", "PrivateClassifier", "PrivateRegressor", "PrivateSelector"]

EXPECTED_FAILED_CHECKS: dict[str, str] = {}
"""The checks of scikit-learn that privacy forces us to fail, each with its reason: none."""
