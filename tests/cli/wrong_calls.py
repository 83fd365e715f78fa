"""Wrong calls of `search`, `crossover` and `select`, by the hundred: settings, budgets, data, folders."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cli.wrong_spaces import SEARCH, Fill, Wrong, wrong_spaces, wrong_values

__all__ = ["describe", "wrong_calls"]


def wrong_calls() -> Iterator[Wrong]:
    """All of them, in a fixed order."""
    for family in (
        wrong_spaces,
        wrong_values,
        _strategies,
        _options,
        _settings,
        _budgets,
        _ledgers,
        _tables,
        _folders,
        _publics,
        _crossovers,
        _selections,
    ):
        yield from family()


def _searches(kind: str, *calls: tuple[str, ...], **more: Any) -> Iterator[Wrong]:
    for words in calls:
        yield Wrong(kind=f"{kind}: {' '.join(words)!s:.60}", verb="search", words=words, **more)


def _strategies() -> Iterator[Wrong]:
    names = ("nothing", "", "RS", "random", "_search", "__init__", "rs.py", "../rs", "rs ", "grid,rs", "mgrs\0")
    yield from _searches("strategy", *(("--strategy", name) for name in names))
    yield from _searches("strategy", ("--strategy", "dpnas"), ("--strategy", "dpnas", "--space", "dpnas"))
    for strategy in ("rs", "racing", "grid", "mgrs", "paas"):
        yield from _searches(
            "strategy", *(("--strategy", strategy, "--trials", value) for value in ("0", "-1", "x", "1.5", "nan", ""))
        )


def _options() -> Iterator[Wrong]:
    options_of = {
        "rs": ("chance=2", "chance=-1", "chance=x", "chance=true", "chance=NaN", "top=-0.1", "top=2", "top=[1]", "x=1"),
        "racing": ("faster=1", "faster=0", "faster=-2", "faster=2.5", "faster=true", "faster=x", "colour=red"),
        "grid": ("pace=2", "=", "=3", "trials"),
        "mgrs": ("population=0", "population=-1", "population=x", "generations=-1", "nothing=1"),
        "paas": ("population=0", "population=-1", "generations=x", "survivors=-1", "nothing=1"),
        "optuna": ("sampler=nothing", "sampler=3", "nothing=1"),
    }
    for strategy, options in options_of.items():
        yield from _searches("option", *(("--strategy", strategy, "--option", one) for one in options))
    yield from _searches("option", ("--option", "chance=1e999"))
    for value in ("0", "-3", "true", "[1]", "2.5", "x"):
        words = ("--space", "space.toml", "--epsilon", "2", "--out", "n", "--option", f"trials={value}")
        yield Wrong(kind=f"option: trials={value}", verb="search", words=words, bare=True)


def _settings() -> Iterator[Wrong]:
    yield from _searches(
        "setting",
        *(
            ("--set", one)
            for one in (
                "steps=0",
                "steps=-4",
                "steps=x",
                "steps=2.5",
                "steps=true",
                "steps=[4]",
                "batch=0",
                "batch=-1",
                "batch=x",
                "batch=NaN",
                "norm=0",
                "norm=-1",
                "norm=x",
                "norm=NaN",
                "norm=Infinity",
                "colour=red",
                "steps",
                "=4",
                "device=gpu",
                "rate=2",
                "momentum=7",
                "momentum=x",
                "update=nothing",
            )
        ),
    )
    yield from _searches("held out", *(("--held-out", one) for one in ("0", "1", "-0.1", "2", "nan", "inf", "x", "")))
    yield from _searches("workers", *(("--workers", one) for one in ("0", "-1", "x", "1.5", "nan", "")))
    yield from _searches("workflow", *(("--workflow", one) for one in ("", "x", "AWARE", "standard")))
    yield from _searches("device", *(("--device", one) for one in ("", "gpu", "cuda:99", "tpu", "cuda")))
    yield from _searches("seed", *(("--seed", one) for one in ("-1", "x", "1.5", "")))
    yield from _searches("cap", *(("--unit", "town", "--cap", one) for one in ("0", "-1", "x")))
    yield from _searches("unit", ("--unit", "nothing"), ("--unit", ""), ("--unit", "y"), ("--cap", "0"))
    yield from _searches("workers", ("--workers", "1000"))
    yield from _searches("ray", ("--ray", "nowhere:1"), ("--ray", ""), ("--ray", "x y"))
    yield from _searches("unknown", ("--colour",), ("more",), ("--epsilon",), ("--target",))


def _budgets() -> Iterator[Wrong]:
    bad = ("0", "-1", "nan", "inf", "-inf", "x", "", "1e400")
    for verb in ("search", "select"):
        for value in bad:
            yield Wrong(kind=f"budget: {verb} {value}", verb=verb, words=("--epsilon", value))
    for value in bad:
        words = (*SEARCH, "--model-epsilon", value, "--out", "n")
        yield Wrong(kind=f"budget: model {value}", verb="search", words=words, bare=True)
        yield Wrong(kind=f"budget: public {value}", verb="search", words=(*words, "--public", "people.csv"), bare=True)
    yield from _searches("budget", ("--model-epsilon", "1"))
    for verb in ("search", "select", "crossover"):
        for value in ("0", "-1e-5", "1", "0.1", "nan", "inf", "x", "2"):
            yield Wrong(kind=f"delta: {verb} {value}", verb=verb, words=("--delta", value))
        for value in ("0", "-1", "nan", "inf", "x", "7"):
            yield Wrong(kind=f"limit: {verb} {value}", verb=verb, words=("--limit", value))
    over = (3,)
    yield Wrong(kind="over: search", verb="search", words=("--epsilon", "4"), codes=over)
    yield Wrong(kind="over: search by far", verb="search", words=("--epsilon", "500"), codes=over)
    yield Wrong(kind="over: select", verb="select", words=("--epsilon", "3.5"), codes=over)
    yield Wrong(kind="over: crossover", verb="crossover", words=("--epsilons", "1,3"), codes=over)
    for strategy in ("rs", "racing", "grid", "mgrs", "paas"):
        words = (*SEARCH, "--model-epsilon", "2.9", "--strategy", strategy, "--out", "n")
        yield Wrong(kind=f"over: {strategy}", verb="search", words=words, bare=True, codes=over)


def _book(folder: Path, *, unit: str = "row", relation: str = "add_remove", delta: float = 1e-5) -> None:
    from privaware.ledger import Ledger

    (folder / "book.ledger").unlink()
    Ledger.create(folder / "book.ledger", limit=3.0, delta=delta, unit=unit, relation=relation)


def _ledgers() -> Iterator[Wrong]:
    fills: dict[str, Fill] = {
        "of another unit": lambda folder: _book(folder, unit="town"),
        "of labels": lambda folder: _book(folder, unit="label"),
        "of another relation": lambda folder: _book(folder, relation="replace_one"),
        "of another delta": lambda folder: _book(folder, delta=1e-6),
        "is text": lambda folder: (folder / "book.ledger").write_text("hello"),
        "is empty": lambda folder: (folder / "book.ledger").write_bytes(b""),
        "is a folder": lambda folder: ((folder / "book.ledger").unlink(), (folder / "book.ledger").mkdir()),
        "is cut": lambda folder: (folder / "book.ledger").write_bytes((folder / "book.ledger").read_bytes()[:700]),
    }
    for verb in ("search", "select", "crossover"):
        for name, fill in fills.items():
            yield Wrong(kind=f"ledger: {verb}, {name}", verb=verb, words=(), fill=fill)
        for place in ("no/where/book", "people.csv", "."):
            yield Wrong(kind=f"ledger: {verb} at {place}", verb=verb, words=(), ledger=("--ledger", place))


def _tables() -> Iterator[Wrong]:
    header = "age,town,y\n"
    texts = {
        "empty": "",
        "only a header": header,
        "one row": header + "30,n,yes\n",
        "twice a name": "age,age,y\n" + "30,31,yes\n40,42,no\n" * 50,
        "three times a name": "age,town,age,y,age\n" + "30,n,1,yes,2\n40,e,1,no,2\n" * 50,
        "one class": header + "30,n,yes\n40,e,yes\n" * 50,
        "without a target": "age,town\n" + "30,n\n40,e\n" * 50,
        "target is missing everywhere": header + "30,n,\n40,e,\n" * 50,
        "only a target": "y\n" + "yes\nno\n" * 50,
        "ragged": header + "30,n,yes\n40\n" * 50,
        "bytes": "\0" * 300,
    }
    for verb in ("search", "select", "crossover"):
        for name, text in texts.items():
            for schema in (("--accept-schema", "--target", "y"), ("--private-schema", "--target", "y")):
                yield Wrong(
                    kind=f"rows: {verb}, {name}, {schema[0]}",
                    verb=verb,
                    words=(),
                    schema=schema,
                    fill=lambda folder, text=text: (folder / "people.csv").write_text(text),
                )
        for schema in (
            (),
            ("--accept-schema",),
            ("--private-schema",),
            ("--schema", "no.toml"),
            ("--accept-schema", "--target", "nothing"),
            ("--private-schema", "--target", ""),
            ("--schema", "people.toml", "--target", "age"),
            ("--schema", "space.toml"),
            ("--schema", "people.toml", "--accept-schema"),
            ("--accept-schema", "--target", "y", "--task", "regression"),
            ("--accept-schema", "--target", "y", "--task", "magic"),
        ):
            yield Wrong(kind=f"schema: {verb} {' '.join(schema)}", verb=verb, words=(), schema=schema)
        for data in ("nowhere.csv", "nothing", "", "space.toml", ".", "a\nb", "x" * 300):
            yield Wrong(kind=f"data: {verb} {data!s:.20}", verb=verb, words=(), data=data)


def _folders() -> Iterator[Wrong]:
    fills: dict[str, Fill] = {
        "is a file": lambda folder: (folder / "n").write_text("years of work"),
        "holds a thesis": lambda folder: ((folder / "n").mkdir(), (folder / "n" / "thesis").write_text("years")),
        "is a broken link": lambda folder: (folder / "n").symlink_to("/nowhere/at/all"),
        "is a pipe": lambda folder: __import__("os").mkfifo(folder / "n"),
    }
    for verb in ("search", "select", "crossover"):
        for name, fill in fills.items():
            yield Wrong(kind=f"out: {verb}, {name}", verb=verb, words=(), fill=fill)
        for place in ("people.csv/n", "/proc/nowhere", "x" * 300, "a\0b"):
            yield Wrong(kind=f"out: {verb} at {place!s:.12}", verb=verb, words=("--out", place))

    def file(folder: Path) -> None:
        (folder / "n").mkdir()
        (folder / "n" / ".search").write_text("not a folder")

    yield Wrong(kind="journal: a file", verb="search", words=(), fill=file)


def _publics() -> Iterator[Wrong]:
    texts = {
        "empty": "",
        "only a header": "age,town,y\n",
        "other columns": "a,b,c\n" + "1,2,3\n" * 50,
        "a column less": "age,y\n" + "30,yes\n40,no\n" * 50,
        "no target": "age,town\n" + "30,n\n40,e\n" * 50,
        "another class": "age,town,y\n" + "30,n,maybe\n40,e,no\n" * 50,
        "another town": "age,town,y\n" + "30,x,yes\n40,e,no\n" * 50,
        "text for a number": "age,town,y\n" + "old,n,yes\n40,e,no\n" * 50,
        "one row": "age,town,y\n30,n,yes\n",
        "bytes": "\0\1\2" * 100,
    }
    for name, text in texts.items():
        yield Wrong(
            kind=f"public: {name}",
            verb="search",
            words=("--public", "public.csv"),
            fill=lambda folder, text=text: (folder / "public.csv").write_text(text),
        )
    yield from _searches(
        "public",
        ("--public", "nowhere.csv"),
        ("--public", "."),
        ("--public", ""),
        ("--public", "space.toml"),
        ("--public", "digits"),
        ("--public", "people.csv", "--workflow", "standard"),
        ("--public", "people.csv", "--model-epsilon", "1"),
    )
    yield Wrong(
        kind="public: bounds that are private",
        verb="search",
        words=("--public", "people.csv"),
        schema=("--private-schema", "--target", "y"),
    )
    yield from _searches("test", ("--test", "nowhere.csv"), ("--test", "space.toml"), ("--test", "."))


def _crossovers() -> Iterator[Wrong]:
    models = (
        "nothing",
        "",
        "linear:steps",
        "linear:steps=-1",
        "linear:steps=x",
        "linear:colour=red",
        "linear:columns=nothing",
        "linear:columns=",
        "{",
        "{}",
        "[]",
        '{"name": "x"}',
        "majority:steps=3",
        ":",
        "linear:lr=NaN",
        '{"name": "fcn", "hidden": [-1]}',
        "tramer_boneh_cnn",
    )
    for side in ("--simple", "--complex"):
        for model in models:
            yield Wrong(kind=f"model: {side} {model}", verb="crossover", words=(side, model))
    for text in ("", "x", "0", "-1,1", "1,1", "3,1", "nan", "1,nan", "inf", "1,inf", "0.1;1", "0.1,", "1e7", "0,1"):
        yield Wrong(kind=f"epsilons: {text}", verb="crossover", words=("--epsilons", text))
    for text in ("0", "-1", "x", "1.5", "100000", "nan"):
        yield Wrong(kind=f"repeats: {text}", verb="crossover", words=("--repeats", text))
    for text in ("steps=x", "colour=red", "steps", "steps=-3"):
        yield Wrong(kind=f"both: {text}", verb="crossover", words=("--set", text))
    for words in (("--device", "gpu"), ("--seed", "-1"), ("--unit", "nothing"), ("--cap", "0"), ("--task", "magic")):
        yield Wrong(kind=f"crossover: {' '.join(words)}", verb="crossover", words=words)


def _selections() -> Iterator[Wrong]:
    for method in ("nothing", "", "bounds", "_cfs", "CFS", "__init__"):
        yield Wrong(kind=f"method: {method}", verb="select", words=("--method", method))
    for method in ("cfs_greedy", "cfs_ga", "pafs", "random", "top", "worth"):
        for words in (
            ("--columns", "0"),
            ("--columns", "-1"),
            ("--columns", "x"),
            ("--columns", "1.5"),
            ("--set", "colour=red"),
            ("--set", "columns=true"),
            ("--set", "columns=NaN"),
        ):
            yield Wrong(kind=f"size: {method} {words[-1]}", verb="select", words=("--method", method, *words))
    for name in ("population", "generations"):
        for value in ("0", "-1", "x", "2.5"):
            for method in ("cfs_ga", "pafs"):
                words = ("--method", method, f"--{name}", value)
                yield Wrong(kind=f"size: {method} {name} {value}", verb="select", words=words)
        yield Wrong(kind=f"size: {name} for all", verb="select", words=("--method", "all", f"--{name}", "3"))
    for words in (("--seed", "-1"), ("--unit", "nothing"), ("--cap", "0"), ("--task", "magic"), ("--colour",)):
        yield Wrong(kind=f"select: {' '.join(words)}", verb="select", words=words)


def describe(case: Wrong) -> str:
    """The call, to try it by hand."""
    return json.dumps([case.kind, *case.call])[:400]
