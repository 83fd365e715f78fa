"""MNIST: handwritten digits, 28 x 28 grey.

Rows: 60,000 train, 10,000 test (official); the public part is the last 5,000 training rows.
Origin: Y. LeCun, C. Cortes, C. J. C. Burges, The MNIST database of handwritten digits, 1998.
Licence: CC BY-SA 3.0, as commonly cited.
Used by: Bao et al. (60,000 train; the test part split into 5,000 for validation and 5,000 for test),
Tramer and Boneh (official), DPNAS (training rows split 0.6 : 0.4), DPMLBench (halves).

>>> schema().shape, schema(public=True).rows
((1, 28, 28), 55000)
"""

from __future__ import annotations

from privaware.datasets import _idx
from privaware.datasets._dataset import Source
from privaware.schema import Schema

__all__ = ["source", "load", "schema"]

source = Source(
    name="mnist",
    facts=Schema(target="digit", classes=tuple("0123456789"), rows=60_000, form="image", shape=(1, 28, 28)),
    test_rows=10_000,
    public_rows=5_000,
    read=_idx.read,
    files=_idx.files(
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        (
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    origin="http://yann.lecun.com/exdb/mnist",
)
load, schema = source.load, source.schema
