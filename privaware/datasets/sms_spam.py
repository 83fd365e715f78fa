"""SMS Spam Collection: is a text message spam?

Rows: 5,574 messages without an official split: 4,700 train and 836 test, the counts of Bao et al., in
a fixed public order (by a hash of the row number); 38 are left out as in the paper. The public part is the last 470
training rows.
Origin: T. A. Almeida and J. M. Gomez Hidalgo, UCI Machine Learning Repository, 2011, doi
10.24432/C5CC84.
Licence: CC BY 4.0.

>>> schema().form, schema().classes, schema().rows
('text', ('ham', 'spam'), 4700)
"""

from __future__ import annotations

from pathlib import Path

from privaware.data import Data, Raw
from privaware.datasets._dataset import Source
from privaware.datasets._download import File
from privaware.errors import WrongInput
from privaware.schema import Column, Schema

__all__ = ["source", "load", "schema"]

ROWS = 5_574
"""Published number of rows."""

HOME = "https://archive.ics.uci.edu"


def _read(folder: Path | None, schema: Schema) -> tuple[Data, Data]:
    """Return training and test rows from a file with a label, a tab and a text on each line; quotes have no meaning."""
    import pandas as pd

    assert folder is not None
    try:
        text = (folder / "SMSSpamCollection").read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise WrongInput("expected 'SMSSpamCollection' as UTF-8 text, got other bytes") from None
    lines = [line.partition("\t") for line in text.split("\n") if line]
    frame = pd.DataFrame(
        {"label": [label for label, _, _ in lines], "message": [words for _, _, words in lines]}, dtype=object
    )
    return source.split(Data.of(Raw(frame=frame), schema), ROWS)


source = Source(
    name="sms_spam",
    facts=Schema(
        columns=(Column(name="message", kind="text"),), target="label", classes=("ham", "spam"), rows=4_700, form="text"
    ),
    test_rows=836,
    public_rows=470,
    read=_read,
    files=(
        File(
            name="SMSSpamCollection",
            urls=(
                f"{HOME}/static/public/228/sms+spam+collection.zip",
                f"{HOME}/ml/machine-learning-databases/00228/smsspamcollection.zip",
            ),
            sha256="7d039a24a6083ed9ef0f806ebad56bbb976e3aeb8de05669173bfdc4996c239d",
            member="SMSSpamCollection",
        ),
    ),
    origin=f"{HOME}/dataset/228/sms+spam+collection",
)
load, schema = source.load, source.schema
