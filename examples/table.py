"""A private model of a CSV file: fit, verify, predict, and what the ledger says."""

from pathlib import Path

import numpy as np

import privaware

rng = np.random.default_rng(0)
age = rng.integers(18, 91, 2000)
town = rng.choice(["north", "east", "south"], 2000)
income = np.where(age + rng.normal(0, 8, 2000) > 50, "high", "low")
rows = [f"{a},{t},{i}" for a, t, i in zip(age, town, income, strict=True)]
Path("people.csv").write_text("\n".join(["age,town,income", *rows]) + "\n")

result = privaware.fit("people.csv", target="income", epsilon=1.0, limit=3.0, private_schema=True, out="income-model")
print("\n".join(result.plan))
print(result.sentence)

print("valid:", privaware.verify("income-model", ledger="people.csv.ledger").valid)
print(privaware.predict("income-model", "people.csv", out="predictions.csv"))

ledger = privaware.Ledger.open("people.csv.ledger")
print(f"spent: epsilon {ledger.json()['epsilon_spent']:.3f} of {ledger.json()['limit']:g}")
