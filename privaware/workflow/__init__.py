"""One verb a file: plan on public facts, charge, run, publish. Private rows are read in `run/charge.py` only."""
