"""One verb a file: plan from public facts, charge, run, publish.

Private rows reach a mechanism only through `run/charge.py`, except the rows of `train.py`, which charges a ledger
itself.
"""
