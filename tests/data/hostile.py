"""A generator of bad inputs: each must be refused with one sentence by every reader.

`hostile(seed, count)` yields cases. `case.write(folder)` puts files into an empty folder and returns
the path of the data; `case.arguments(folder)` are its command-line arguments. Every case is certainly
wrong, so a reader that accepts one is as broken as one that crashes.

>>> case = next(hostile(seed=1, count=1))
>>> isinstance(case.kind, str), case.arguments(Path("somewhere"))[0]
(True, '--target')
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Draw = np.random.Generator

NAMES = (
    "[columns]",
    '"',
    "'",
    "a,b",
    "a\nb",
    "\t",
    " lead",
    "trail ",
    "é",
    "😀",
    "\u202eabc",
    "x" * 5000,
    "__proto__",
    "=cmd()",
    "../../etc",
    "%s",
    "{0}",
    "<b>",
    "NaN",
    "null",
    "0",
    "-",
    "#",
    "\\",
    "age ",
)
NOT_NUMBERS = ("abc", "1,5", "12 3", "--4", "1e", "0x1F", "१२x", "1_000", "twelve", "1.2.3", "5 apples", "😀")
NOT_FINITE = ("inf", "-inf", "Infinity", "1e400", "-1e999", "9" * 400, "", "NA", "nan", "?", "null")
BAD_TOML = (
    "rows = ",
    "rows = 0",
    "rows = -5",
    'rows = "many"',
    "rows = 1.5",
    "rows = true",
    "rows = inf",
    "rows = " + "9" * 5000,
    "rows = 0x" + "f" * 5000,
    "rows = 1979-05-27",
    "rows = [1]",
    "rows = 10\nrows = 11",
    'kind = "table"',
    'form = "video"',
    'relation = "cousin"',
    'unit = ""',
    "unit = 3",
    "cap = 0",
    "cap = 99999999999999999999",
    "target = 5",
    'classes = ["a"]',
    'classes = ["a", "a"]',
    'classes = "ab"',
    "classes = [1, 2]",
    "classes = {}",
    "low = nan\nhigh = 1",
    "low = 2\nhigh = 1",
    "low = 1",
    "low = -1e308\nhigh = 1e308",
    'reviewed = "yes"',
    "assumed = [3]",
    'form = "image"',
    'form = "image"\nshape = [1, 0, 3]',
    'form = "image"\nshape = [true, 2, 3]',
    "columns = 3",
    "columns = []",
    "[columns]\nage = 4",
    '[columns.age]\nkind = "numeric"',
    "[columns.age]\nlow = 1",
    "[columns.age]\nlow = 5\nhigh = 5",
    "[columns.age]\nlow = 9\nhigh = 5",
    "[columns.age]\nlow = inf\nhigh = 5",
    '[columns.age]\nlow = "0"\nhigh = "9"',
    "[columns.age]\nlow = true\nhigh = false",
    "[columns.age]\nlow = 0\nhigh = " + "9" * 400,
    "[columns.age]\nlow = 0\nhigh = 9\nbins = [5, 3]",
    "[columns.age]\nlow = 0\nhigh = 9\nbins = 4",
    '[columns.age]\nlow = 0\nhigh = 9\nmissing = "mean"',
    "[columns.age]\nlow = 0\nhigh = 9\nmissing = 12",
    '[columns.age]\nlow = 0\nhigh = 9\nunseen = "drop"',
    '[columns.age]\nkind = "category"\ncategories = ["a", "a"]',
    '[columns.age]\nkind = "category"\ncategories = [1]',
    '[columns.age]\nkind = "category"\ncategories = "ab"',
    '[columns.age]\nname = "b"\nlow = 0\nhigh = 1',
    '[columns.""]\nlow = 0\nhigh = 1',
    "[columns.y]\nlow = 0\nhigh = 1",
    "[columns.age]\nsecret = 1",
    "[columns.age.deep]\nlow = 0",
    "[columns.age]\n[columns.age]",
    "[[columns]]\nlow = 0",
    "\x00",
    "]",
    "= 3",
    "a" * 10_000,
    "x = " + "[" * 3000,
    "x = '''",
    '"\\q" = 1',
    "rows = 5 # \x01",
    "<html>",
    "{}",
    '{"rows": 5}',
)
GOOD_TOML = """target = "y"
classes = ["no", "yes"]
rows = 20

[columns.age]
low = 0
high = 100

[columns.town]
kind = "category"
categories = ["n", "e", "s"]
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One bad input; `schema` is the TOML text to write beside it, None to go without one."""

    kind: str
    name: str
    fill: Callable[[Path], None]
    schema: bytes | None = None
    target: str = "y"

    def write(self, folder: Path) -> Path:
        """The files, inside `folder`; returns the path of the data."""
        if self.schema is not None:
            (folder / "schema.toml").write_bytes(self.schema)
        path = folder / self.name
        self.fill(path)
        return path

    def arguments(self, folder: Path) -> list[str]:
        """The arguments beside the path on the command line."""
        schema = ["--accept-schema"]
        if self.schema is not None:
            schema = ["--schema", str(folder / "schema.toml")]
        return ["--target", self.target, *schema]


def hostile(seed: int, count: int) -> Iterator[Case]:
    """`count` cases, cycling through the families, with details drawn from `seed`."""
    families = (broken_csv, odd_names, wrong_values, bad_toml, broken_parquet, broken_npz, broken_folder, no_data)
    draw = np.random.default_rng(seed)
    for at in range(count):
        yield families[at % len(families)](draw)


def _pick(draw: Draw, options: tuple[str, ...]) -> str:
    return options[int(draw.integers(len(options)))]


def _rows(draw: Draw, rows: int = 20) -> list[list[str]]:
    return [
        [str(int(draw.integers(18, 90))), _pick(draw, ("n", "e", "s")), ("no", "yes")[at % 2]] for at in range(rows)
    ]


def _csv(header: list[str], rows: list[list[str]]) -> bytes:
    import csv

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header, *rows])
    return text.getvalue().encode()


def _bytes(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


def broken_csv(draw: Draw) -> Case:
    """Text that is not a table."""
    rows, header = _rows(draw), ["age", "town", "y"]
    at = int(draw.integers(len(rows)))
    good = _csv(header, rows)
    lines = good.splitlines(keepends=True)
    long, short = [*lines], [*lines]
    long[at + 1] = long[at + 1].rstrip(b"\n") + b",extra\n"
    short[at + 1] = b"44\n"
    unclosed = b"".join(lines[: at + 1]) + b'44,"n,yes\n' + b"".join(lines[at + 1 :])
    last = b"".join(lines[: at + 1]) + b'44,n,"yes\n' + b"".join(lines[at + 1 :])
    options = {
        "empty": b"",
        "blank": b"\n \n\r\n"[: int(draw.integers(1, 3))],
        "header only": lines[0],
        "a row too long": b"".join(long),
        "a row too short": b"".join(short),
        "an unclosed quote": unclosed,
        "an unclosed quote at the end of a row": last,
        "the same name twice": _csv(["age", "age", "y"], rows),
        "NUL bytes": good.replace(b"n", b"n\0", at + 1),
        "latin-1": good.replace(b"age", b"\xe4ge"),
        "half of UTF-16": good.decode().encode("utf-16")[:-1],
        "random bytes": draw.bytes(int(draw.integers(1, 5000))) + b"\xff\x00",
        "a separator that is none": good.replace(b",", b"!"),
    }
    kind = _pick(draw, tuple(options))
    return Case(kind=f"csv: {kind}", name="data.csv", fill=_bytes(options[kind]))


def odd_names(draw: Draw) -> Case:
    """A table whose columns have hostile names, and a target that is not among them."""
    names = [str(name) for name in draw.choice(np.array(NAMES, dtype=object), 2, replace=False)]
    wanted = _pick(draw, ("y ", "Y", "", "yy", "target", "0", "\u0443", *NAMES[:6]))
    if wanted.strip() in {name.strip() for name in names} or wanted.strip() == "y":
        wanted = "nowhere"
    content = _csv([*names, "y"], _rows(draw))
    return Case(kind="names: no such target", name="data.csv", fill=_bytes(content), target=wanted)


def wrong_values(draw: Draw) -> Case:
    """A good schema, and one value that does not fit it."""
    rows = _rows(draw)
    at = int(draw.integers(len(rows)))
    kind = _pick(draw, ("text", "not finite", "category", "class", "absent column", "huge field"))
    header = ["age", "town", "y"]
    if kind == "text":
        rows[at][0] = _pick(draw, NOT_NUMBERS)
    elif kind == "not finite":
        rows[at][0] = _pick(draw, NOT_FINITE)
    elif kind == "category":
        rows[at][1] = _pick(draw, ("w", "", "N", "n e", "?", *NAMES[:6]))
    elif kind == "class":
        # a blank class is a missing one, whose row is left out
        rows[at][2] = _pick(draw, ("maybe", "YES", "1", *(name for name in NAMES[:6] if name.strip())))
    elif kind == "absent column":
        column = int(draw.integers(3))  # a name keeps its meaning with spaces around it
        header[column] = _pick(draw, tuple(name for name in NAMES if name.strip() != header[column]))
    else:
        rows[at][int(draw.integers(3))] = "z" * 2_000_000
    return Case(kind=f"values: {kind}", name="data.csv", fill=_bytes(_csv(header, rows)), schema=GOOD_TOML.encode())


def bad_toml(draw: Draw) -> Case:
    """Good rows and an invalid schema."""
    text = _pick(draw, BAD_TOML)
    content = text.encode()
    if draw.random() < 0.1:
        content = GOOD_TOML.encode()[: int(draw.integers(20, 60))] + b'\n"'
    if draw.random() < 0.05:
        content = b"\xff\xfe" + content
    return Case(
        kind="toml: " + repr(text[:40]),
        name="data.csv",
        fill=_bytes(_csv(["age", "town", "y"], _rows(draw))),
        schema=content,
    )


def broken_parquet(draw: Draw) -> Case:
    """Parquet that is truncated, overwritten, or holds values that no column can take."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    kind = _pick(draw, ("cut", "garbage", "empty", "twice", "nested", "damaged", "infinite", "bytes"))
    rows = 20
    good = {"age": [float(at) for at in range(rows)], "town": ["n"] * rows, "y": ["no", "yes"] * 10}
    if kind == "nested":
        good["age"] = [[1.0, 2.0]] * rows
    if kind == "infinite":
        good["age"][int(draw.integers(rows))] = float("inf")
    if kind == "bytes":
        good["town"] = [b"\xff\xfe"] * rows
    if kind == "twice":
        table = pa.table([pa.array([1, 2]), pa.array([3, 4]), pa.array(["no", "yes"])], ["a", "a", "y"])
        pq.write_table(table, buffer)
    else:
        pd.DataFrame(good).to_parquet(buffer)
    content = buffer.getvalue()
    if kind == "cut":
        content = content[: int(draw.integers(1, len(content) - 1))]
    if kind == "garbage":
        content = draw.bytes(500)
    if kind == "empty":
        content = b""
    if kind == "damaged":
        at = len(content) - 8
        content = content[:at] + draw.bytes(3) + b"\x7f" + content[at + 4 :]
    schema = None if kind == "twice" else GOOD_TOML.encode()
    return Case(kind=f"parquet: {kind}", name="data.parquet", fill=_bytes(content), schema=schema)


def broken_npz(draw: Draw) -> Case:
    """Arrays that are pickled, of wrong shape or name, or truncated."""
    x, y = draw.random((12, 3)), np.arange(12) % 2
    options: dict[str, dict[str, np.ndarray]] = {
        "pickled": {"x": np.array([{}] * 12, dtype=object), "y": y},
        "pickled labels": {"x": x, "y": np.array([None] * 12, dtype=object)},
        "no x": {"z": x, "y": y},
        "no y": {"x": x},
        "no labels": {"x": draw.random((12, 8, 8))},
        "one dimension": {"x": x[:, 0], "y": y},
        "five dimensions": {"x": x.reshape(12, 3, 1, 1, 1), "y": y},
        "a number": {"x": np.float64(3.0), "y": y},
        "labels too few": {"x": x, "y": y[:-1]},
        "labels of two dimensions": {"x": x, "y": np.stack([y, y], 1)},
        "complex": {"x": x + 1j, "y": y},
        "text": {"x": x.astype(str), "y": y},
        "records": {"x": np.zeros(12, dtype=[("a", float)]), "y": y},
        "one class": {"x": x, "y": np.zeros(12, dtype=int)},
        "NaN label": {"x": x, "y": np.where(y == 1, np.nan, 0.0)},
        "NaN image": {"x": np.full((12, 4, 4), np.nan), "y": y},
        "bright image": {"x": np.full((12, 4, 4), 300.0), "y": y},
        "no rows": {"x": x[:0], "y": y[:0]},
        "images without pixels": {"x": np.zeros((12, 0, 4)), "y": y},
    }
    kind = _pick(draw, (*options, "cut", "an .npy file", "random bytes"))
    buffer = io.BytesIO()
    if kind == "an .npy file":
        np.save(buffer, x)
    else:
        np.savez(buffer, **options.get(kind, {"x": x, "y": y}))
    content = buffer.getvalue()
    if kind == "cut":
        content = content[: int(draw.integers(1, len(content) - 30))]
    if kind == "random bytes":
        content = draw.bytes(300)
    return Case(kind=f"npz: {kind}", name="data.npz", fill=_bytes(content))


def broken_folder(draw: Draw) -> Case:
    """A folder of images with a defect."""
    from PIL import Image

    kind = _pick(draw, ("empty", "no images", "one class", "two sizes", "cut", "not an image"))
    pixels = draw.integers(0, 256, (9, 9), dtype=np.uint8)

    def fill(path: Path) -> None:
        path.mkdir()
        if kind == "empty":
            return
        for label in ("cat", "dog")[: 1 if kind == "one class" else 2]:
            (path / label).mkdir()
            if kind == "no images":
                (path / label / "notes.md").write_text("nothing here")
                continue
            for at in range(3):
                Image.fromarray(pixels).save(path / label / f"{at}.png")
        last = path / "dog" / "2.png"
        if kind == "two sizes":
            Image.fromarray(pixels[:5]).save(last)
        if kind == "cut":
            last.write_bytes(last.read_bytes()[:60])
        if kind == "not an image":
            last.write_bytes(b"GIF89a, in name only")

    return Case(kind=f"folder: {kind}", name="images", fill=fill)


def no_data(draw: Draw) -> Case:
    """A path to nothing readable."""
    name = _pick(draw, ("none.csv", "data.xlsx", "data", "data.pkl", "data.json", "x" * 300 + ".csv"))
    missing = name == "none.csv" or len(name) > 255
    fill = (lambda path: None) if missing else _bytes(draw.bytes(50))
    return Case(kind=f"path: {name[:12]}", name=name, fill=fill)
