"""One verb a file: plan from public facts, charge, run, publish.

Private rows reach a mechanism in `run/charge.py` only, except the rows of `train.py`, which charges a ledger itself.
"""
