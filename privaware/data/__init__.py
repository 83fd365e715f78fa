"""Private rows held against a schema, and the readers that bring them in.

`Raw` is a file as it stands (CSV, Parquet, `.npz`, a folder of images by class, a DataFrame), on
the owner's side only. `draft` proposes a schema from it, to be confirmed by a person; `Data.of`
turns it into rows of declared meaning. Every value ends within what the schema declares, or the
reader says in one sentence which column and row does not.
"""

from privaware.data._data import Data
from privaware.data._draft import draft
from privaware.data._read import Raw, read

__all__ = ["Data", "Raw", "draft", "read"]
