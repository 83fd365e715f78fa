"""Fashion-MNIST: articles of clothing, 28 x 28 grey.

Rows: 60,000 train, 10,000 test (official); the public part is the last 5,000 training rows.
Origin: H. Xiao, K. Rasul, R. Vollgraf (Zalando Research), Fashion-MNIST, 2017.
Licence: MIT.
Used by: Bao et al. (60,000 train; the test part split into 5,000 for validation and 5,000 for test),
Tramer and Boneh (official), DPNAS (training rows split 0.6 : 0.4), DPMLBench (halves).

>>> schema().classes[:2]
('T-shirt/top', 'Trouser')
"""

from __future__ import annotations

from privaware.datasets import _idx
from privaware.datasets._dataset import Source
from privaware.schema import Schema

__all__ = ["source", "load", "schema"]

CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")

source = Source(
    name="fashion_mnist",
    facts=Schema(target="article", classes=CLASSES, rows=60_000, form="image", shape=(1, 28, 28)),
    test_rows=10_000,
    public_rows=5_000,
    read=_idx.read,
    files=_idx.files(
        ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
        (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
    origin="https://github.com/zalandoresearch/fashion-mnist",
)
load, schema = source.load, source.schema
