"""The default features and architecture of a network, chosen from public facts."""

from __future__ import annotations

import math
from typing import Any

from privaware import models
from privaware._validate import expect
from privaware.errors import WrongInput
from privaware.features.hashed import Hashed
from privaware.features.onehot import OneHot
from privaware.features.standardise import Standardise
from privaware.features.word_codes import WordCodes
from privaware.learners._fixed_features import feature_for, shape_after
from privaware.schema import Schema

SEQUENCE = "lstm"
"""Name of the architecture that reads the words of a text in order."""
FORMS = {
    "table": "a table; take fcn, or learners for tables such as boosted",
    "image": "images; take simple_cnn, or leave the architecture out",
}
"""For each form of data that is no text: the end of the error message if `SEQUENCE` is asked for."""
WIDTH = 32
"""Number of units of a hidden layer; it is small because noise grows with the number of parameters."""


def expect_tables(name: str, **settings: Any) -> None:
    """Raise `WrongInput` unless each keyword argument is None or a list of tables (dicts).

    `name` is the learner's name, with which the message starts.
    """
    for setting, value in settings.items():
        tables = isinstance(value, list) and all(isinstance(item, dict) for item in value)
        expect(value is None or tables, name, f"{setting} as a list of tables", value)


def network_feature(schema: Schema, description: dict[str, Any] | None = None) -> Any:
    """Return the feature object that makes a network's inputs by default, for the form of data in `schema`.

    Pixels of images are standardised with the constants mean 0.5 and deviation 0.25. Tables become one-hot rows, and
    texts hashed n-grams, scaled so that entries have a size of about 1. `description` is the description of the
    architecture, or None for the default one. Texts for the architecture `SEQUENCE` become word codes; the entries
    `words` and `length` of the description, if present, are passed to `WordCodes`.
    """
    if schema.form == "text" and (description or {}).get("name") == SEQUENCE:
        sizes = {name: value for name, value in (description or {}).items() if name in ("words", "length")}
        return WordCodes(**sizes)
    if schema.form == "image":
        channels = schema.shape[0]
        return Standardise(mean=(0.5,) * channels, deviation=(0.25,) * channels)
    plain = feature_for(schema)
    if isinstance(plain, Hashed):
        return Hashed(slots=plain.slots, words=plain.words, letters=plain.letters, norm=8.0)
    return OneHot(norm=math.sqrt(max(OneHot().squares(schema), 1)))


def architecture(description: dict[str, Any] | None, schema: Schema, chain: tuple[Any, ...]) -> dict[str, Any]:
    """Return the full description of the network `description`, or of a small default network if `description` is None.

    `chain` is the tuple of features that are applied first. Entries "inputs" and "outputs" that `description` leaves
    out are added. Raise `WrongInput` if `description` does not fit the form of data or the number of classes in
    `schema` (one output in a regression), or the shape of rows after the features.
    """
    if (description or {}).get("name") == SEQUENCE and schema.form != "text":
        raise WrongInput(
            f"expected texts for the architecture {SEQUENCE}, which reads words in order, got {FORMS[schema.form]}"
        )
    shape = shape_after(chain, schema)
    outputs = max(len(schema.classes), 1)
    flat = len(shape) != 3 or (description or {}).get("name") == "fcn"
    ends: dict[str, Any] = {"inputs": math.prod(shape) if flat else list(shape), "outputs": outputs}
    if description is not None and description.get("name") == SEQUENCE:
        ends = {"units": WIDTH, "hidden": [], "outputs": outputs}
    described = default_architecture(shape) | ends if description is None else ends | description
    model = models.parse(described)
    codes = chain[-1].words if isinstance(chain[-1], WordCodes) else None
    if model.codes != codes or math.prod(model.shape) != math.prod(shape):
        raise WrongInput(
            f"expected an architecture for inputs of shape {list(shape)}, got {list(model.shape)}; leave its inputs out"
        )
    if described["outputs"] != outputs:
        raise WrongInput(
            f"expected an architecture of {outputs} outputs, got {described['outputs']!r}; leave its outputs out"
        )
    return model.describe()


def default_architecture(shape: tuple[int, ...]) -> dict[str, Any]:
    """Return the description of a default network for rows of this `shape`, without its numbers of inputs and outputs.

    Rows of numbers get one hidden layer. Images (channels, height, width) get three convolutions (one if their shorter
    side has less than 8 pixels) and then one hidden layer. Images of one pixel in height or width get a linear model.
    """
    if len(shape) == 1:
        return {"name": "fcn", "hidden": [WIDTH], "activation": "tanh", "dropout": 0.0}
    blocks = min(3, int(math.log2(min(shape[1:]))))
    if blocks < 1:
        return {"name": "linear"}
    blocks = max(1, blocks - 1) if blocks < 3 else 3
    return {
        "name": "simple_cnn",
        "filters": [16, 32, 32][:blocks],
        "hidden": [WIDTH],
        "activation": "tanh",
        "groups": 4,
    }
