"""Writes the generated pages of the site: cards of a folder, command line, Python interface, gallery.

    python docs/_generate.py FOLDER

A folder of the package is its own registry, so a new file has its page without an edit here.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

from _examples import ROOT, captured, empty_folder  # type: ignore[import-not-found]

from privaware import registry

KINDS = {
    "learners": "Private learning algorithms: `privaware fit DATA --learner NAME --set FIELD=VALUE`.",
    "selectors": "Feature selectors (`privaware select DATA --method NAME`).",
    "preprocessing": "Paid transformations: private ranges and bins of columns, normalisation, principal components.",
    "strategies": "Search strategies: `privaware search DATA --strategy NAME`.",
    "attacks": "Membership attacks: `privaware audit DATA --learner NAME --attack ATTACK`.",
    "features": "Transformations without privacy cost, which learners take as `features`.",
    "models": "Architectures, which network learners take as `architecture`.",
    "datasets": "Built-in data sets: their names stand for DATA, and `privaware data fetch NAME` gets them.",
}
MODULES = (
    "privaware",
    "privaware.accounting",
    "privaware.events",
    "privaware.schema",
    "privaware.descent",
    "privaware.testing",
    "privaware.metrics",
    "privaware.errors",
)


def markdown_of(docstring: str) -> str:
    """A docstring as Markdown: doctests as blocks, `Paper:`, `Privacy:`, `Use when:` and numpydoc sections in bold."""
    lines: list[str] = []
    inside = False
    for line in _numpydoc_lists(inspect.cleandoc(docstring)).splitlines():
        if line.startswith(">>>") and not inside:
            lines += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        if not inside:
            line = re.sub(r"^(Paper|Privacy|Use when|Formal guarantees?):", r"\n**\1:**", line)
        lines.append(line)
    if inside:
        lines.append("```")
    return "\n".join(lines)


def _numpydoc_lists(docstring: str) -> str:
    """The headings of numpydoc sections in bold, and their entries as lists.

    >>> _numpydoc_lists("Parameters\\n----------\\nx, y\\n    Two\\n    numbers.")
    '**Parameters**\\n\\n- `x, y`: Two\\n  numbers.'
    """
    if not re.search(r"^-{3,}$", docstring, flags=re.MULTILINE):
        return docstring
    text = re.sub(r"^(\w[\w ]*)\n-{3,}$\n?", r"**\1**\n\n", docstring, flags=re.MULTILINE)
    text = re.sub(r"^(\S[^\n]*)\n    (?=\S)", r"- `\1`: ", text, flags=re.MULTILINE)
    return re.sub(r"^    (?=\S)", "  ", text, flags=re.MULTILINE)


def settings_of(thing: Any) -> str:
    """A table of the fields of a dataclass with their defaults."""
    if not (inspect.isclass(thing) and dataclasses.is_dataclass(thing)):
        return ""
    rows = [f"| `{each.name}` | `{_default(each)}` |" for each in dataclasses.fields(thing) if each.init]
    return "\n".join(["", "| setting | default |", "|---|---|", *rows, ""]) if rows else ""


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return repr(field.default).replace("|", "\\|")
    if field.default_factory is not dataclasses.MISSING:
        return repr(field.default_factory()).replace("|", "\\|")
    return "required"


def cards(kind: str) -> str:
    """One page of a folder: every file with its card and its settings."""
    parts = [f"# {kind.capitalize()}", KINDS[kind]]
    for name in sorted(path.stem for path in (ROOT / "privaware" / kind).glob("[!_]*.py")):
        module = importlib.import_module(f"privaware.{kind}.{name}")
        parts += [f"## {name}", markdown_of(module.__doc__ or ""), settings_of(registry.find(kind, name))]
    return "\n\n".join(parts) + "\n"


def command_line() -> str:
    """`--help` of every verb."""
    from privaware.cli._verbs import app

    command = importlib.import_module("typer").main.get_command(app)
    parts = ["# Command line", "Generated from `--help`.", _help([])]
    for name, verb in sorted(command.commands.items()):
        parts += [f"## privaware {name}", _help([name])]
        for inner in sorted(getattr(verb, "commands", {})):
            parts += [f"### privaware {name} {inner}", _help([name, inner])]
    return "\n\n".join(parts) + "\n"


def _help(words: list[str]) -> str:
    from privaware.cli import main

    with captured() as said:
        main([*words, "--help"])
    return f"```text\n{said.getvalue().strip()}\n```"


def python_interface() -> str:
    """Every public name with its signature and docstring."""
    parts = ["# Python interface", "Generated from docstrings."]
    for name in MODULES:
        module = importlib.import_module(name)
        parts += [f"## {name}", markdown_of(module.__doc__ or "")]
        parts += [_entry(name, each, getattr(module, each)) for each in module.__all__ if not each.startswith("_")]
    return "\n\n".join(parts) + "\n"


def _entry(module: str, name: str, thing: Any) -> str:
    if not callable(thing):
        return f"### {module}.{name}\n\n`{thing!r:.200}`"
    try:
        signature = str(inspect.signature(thing))
    except (TypeError, ValueError):
        signature = "(...)"
    shown = re.sub(r"<[^<>]*>", "...", signature)
    text = f"### {module}.{name}\n\n```python\n{name}{shown}\n```\n\n{markdown_of(inspect.getdoc(thing) or '')}"
    for method, value in _methods(thing):
        text += f"\n\n`.{method}`: {(inspect.getdoc(value) or '').splitlines()[0]}"
    return text


def _methods(thing: Any) -> list[tuple[str, Any]]:
    if not inspect.isclass(thing):
        return []
    own = [(name, value) for name, value in vars(thing).items() if not name.startswith("_")]
    return [(name, value) for name, value in own if callable(value) or isinstance(value, property) if value.__doc__]


def policy() -> str:
    """The rules of `auto`, from the file that it follows."""
    from privaware.workflow.auto import FACTS, QUANTITIES, default_policy

    chosen = default_policy()
    rows = [
        f"| {number} | {rule.name} | {_entries(rule.when)} | {_entries(rule.use)} | "
        f"{rule.why.replace('{learner}', rule.use['learner'])} | {_link(rule.evidence)} |"
        for number, rule in enumerate(chosen.rules, start=1)
    ]
    floor = ", ".join(f"`{name}` {value}" for name, value in vars(chosen.floor).items())
    limits = ", ".join(f"`{name}` {value:g}" for name, value in vars(chosen.limits).items())
    facts = [f"| `{name}` | {meaning} |" for name, meaning in FACTS.items()]
    quantities = [f"| `${name}` | {(of.__doc__ or '').splitlines()[0]} |" for name, of in QUANTITIES.items()]
    return "\n".join(
        [
            "# Policy of `auto`\n",
            "Generated from `privaware/workflow/auto/policy.toml`. The first rule that matches the public facts, whose "
            "network is installed and whose time and memory are within the limits, chooses. "
            "[Change the plan](../how_to/change_the_plan.md) says how to use rules of your own.\n",
            "| | rule | when | use | why | evidence |\n|---|---|---|---|---|---|",
            *rows,
            f"\nLimits: {limits} (seconds and bytes). Floor of rows x strength, below which a constant is trained: "
            f"{floor}.",
            "\n## Facts\n\n| fact | meaning |\n|---|---|",
            *facts,
            "\n## Quantities\n\n| quantity | meaning |\n|---|---|",
            *quantities,
            "",
        ]
    )


def _entries(table: Any) -> str:
    return ", ".join(f"`{name} = {json.dumps(value)}`" for name, value in table.items()) or "always"


def _link(evidence: str) -> str:
    page, _, anchor = evidence.removeprefix("docs/results/").partition("#")
    return f"[{page.removesuffix('.md')}](../results/{page}{'#' * bool(anchor)}{anchor})"


def gallery() -> str:
    """Every example with what it really prints."""
    import runpy

    parts = ["# Gallery", "The files of `examples/`, run when this page was built."]
    for path in sorted((ROOT / "examples").glob("*.py")):
        source = path.read_text(encoding="utf-8")
        with empty_folder(), captured() as said:
            runpy.run_path(str(path), run_name="__main__")
        parts += [f"## {path.stem}", f"```python\n{source.strip()}\n```", f"```text\n{said.getvalue().strip()}\n```"]
    return "\n\n".join(parts) + "\n"


def write(folder: Path, *, examples: bool = True) -> list[Path]:
    """All generated pages; without `examples` the gallery is left out."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {kind: cards(kind) for kind in KINDS} | {"cli": command_line(), "python": python_interface()}
    pages["policy"] = policy()
    if examples:
        pages["gallery"] = gallery()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return [folder / f"{name}.md" for name in pages]


if __name__ == "__main__":
    write(Path(sys.argv[1]))
