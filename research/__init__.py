"""Research that stands beside the product: papers redone, their questions, pretraining, comparisons.

It runs from a clone of the repository and imports `privaware`; nothing in `privaware` imports it. `python -m research`
is what `privaware reproduce` starts.
"""
