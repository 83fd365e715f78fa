"""A random search over small networks: a secret number of trials, only the best is released, all of it charged."""

import privaware

space = {
    "choices": {"units": [16, 32], "lr": [1.0, 2.0]},
    "build": {"lr": "$lr", "steps": 30, "architecture": {"name": "fcn", "hidden": ["$units"], "dropout": 0.0}},
}
result = privaware.search("digits", space=space, strategy="rs", model_epsilon=3.0, trials=3, out="digits-model")
print("best:", result.best)
print(f"one model: epsilon {result.epsilon_model:.2f}, with the search: {result.epsilon_total:.2f}")
