"""Search spaces: named choices, conditions between them, and the learner's settings at each point.

A space is a plain dictionary, the same in Python and in TOML:

>>> space = Space.load({
...     "what": "One or two hidden layers.",
...     "choices": {"layers": [1, 2], "first": [8, 16], "second": [4, 8], "lr": [1.0, 4.0]},
...     "when": {"second": {"layers": [2]}},
...     "build": {"architecture": {"name": "fcn", "hidden": ["$first", "$second"]}, "lr": "$lr"},
... })
>>> space.settings({"layers": 1, "first": 16, "lr": 4.0})
{'architecture': {'name': 'fcn', 'hidden': [16]}, 'lr': 4.0}

A point has a value for every active choice. A choice whose condition fails is absent, so points that build the same
model are equal. In the template `build`, "$name" stands for the value of the choice `name`, and "$one|other" for the
value of the first of the choices `one` and `other` that is active; an entry whose choices are absent disappears.
`priced` names the choices that change the privacy cost of a candidate at a given noise multiplier (a batch size, a
number of steps): a search has to know every cost before it reads a row.
"""

from __future__ import annotations

from privaware.models.spaces._space import Point, Space, point_key, spaces

__all__ = ["Point", "Space", "point_key", "spaces"]
