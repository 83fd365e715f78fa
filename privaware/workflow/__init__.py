"""The verbs of the package, such as `fit` and `audit`, one in each file.

A verb that reads private rows plans from public facts, charges the ledger, runs its mechanism, and publishes the
result. Private rows reach a mechanism only through `run/charge.py`, except the rows of `train.py`, which charges a
ledger itself.
"""
