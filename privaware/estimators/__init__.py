"""scikit-learn estimators that train models, select columns and transform rows under differential privacy.

The budget is given to the constructor, and the guarantee is an attribute after `fit`.

Without a schema, the labels, the number of columns and their types are taken as declared by the caller (`assumptions_`
says so), and part of the budget estimates the bounds of the columns. Bounds that a schema declares cost nothing.
Everything in a fitted estimator is public: it holds no row and no statistic without noise.

Every call of `fit` is a release of its own, so cross-validation is charged once for each fold. One `ledger` for all
fits composes their costs, keeps them, and stops at its limit. A fit on rows that an earlier fit of this process has
seen, without a ledger or with another ledger, or that are charged to another known ledger, warns
(`privaware.errors.OverlapWarning`) with the total epsilon, and is not certified. Seeded fits, which are never
certified, do not warn. Worker processes (`n_jobs`) do not see each other's fits, so an unseeded fit without a `ledger`
raises there.

The caller is responsible for earlier steps of a `Pipeline` that learn from the rows, such as a scaler or a selector
that is not private. They are outside the guarantee, and the rows that they change are not recognised again.
`PrivateNormaliser` and `PrivatePCA` are charged. An estimator that gets real numbers without declared bounds warns once
(`privaware.errors.OpenBoundsWarning`).

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
from privaware.estimators._transformers import PrivateNormaliser, PrivatePCA, PrivateSelector

__all__ = [
    "EXPECTED_FAILED_CHECKS",
    "PrivateClassifier",
    "PrivateNormaliser",
    "PrivatePCA",
    "PrivateRegressor",
    "PrivateSelector",
]

EXPECTED_FAILED_CHECKS: dict[str, str] = {}
"""The scikit-learn checks that these estimators are expected to fail, with the reasons; there are none."""
