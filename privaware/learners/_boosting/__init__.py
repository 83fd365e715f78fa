"""What the learners `additive`, `boosted` and `fourier` share, and `amortised` in part.

A training goes through stages (`stages.py` has the values that they pass on):

1. `coded_rows.py`: each row becomes ordinal codes of its columns, its target and its outputs so far.
2. `additive_start.py`: a bias, then gradient descent on an additive model (`curve_basis.py`, `gradient_sums.py`).
3. `trees.py` (trees with random splits) or `fourier_sums.py` (random Fourier features): interactions of columns.
4. `regression.py`: for a regression, the last correction of the outputs and the check against a constant prediction.
"""
