"""The options shared by all verbs that read private rows, as one value that is checked once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from privaware._validate import expect, expect_annotated, expect_count, nearest
from privaware.accounting import default_delta
from privaware.errors import WrongInput
from privaware.ledger import Ledger
from privaware.schema import Schema

__all__ = ["RunArguments", "RunOptions", "Say", "shows_run_options", "expect_device"]

Say = Callable[[str], None]
TASKS = ("classification", "regression")
Verb = TypeVar("Verb", bound=Callable[..., Any])


class RunArguments(TypedDict, total=False):
    """The keyword arguments that `fit`, `select`, `search`, `crossover` and `audit` share.

    Attributes
    ----------
    target
        The column to predict.
    task
        "classification" or "regression". Needed only if the target could be either.
    delta
        The delta of the guarantee. Default: 1e-5, or 0.1 / rows if there are 100,000 rows or more.
    schema
        The public facts about the columns, as a `Schema` or a TOML file. Without a schema, part of the budget estimates
        column types, ranges and categories.
    accept_schema
        Use a schema that is read from the rows without noise. The result is not certified.
    private_schema
        Estimate ranges and categories with part of the budget. This is the default.
    kinds
        The kinds of columns by name, as a mapping or a TOML file with lines such as `age = "number"`. A declared kind
        costs nothing. Kinds that neither `kinds` nor the types of the data declare are estimated.
    unit, cap
        The unit of privacy: "row", "label" or the column that identifies the person of a row; and the largest number of
        rows used for each person.
    not_persons
        A column, or a list of columns, that identifies nobody although its name suggests it. It is used as a feature.
    check_persons
        True counts the different values of each column whose name suggests persons or cases, with 1% of the budget. A
        name, or a list of names, counts these columns instead. If values clearly repeat, the run stops before its main
        charge.
    header, sep, decimal, encoding
        The format of a CSV file.
    ledger
        The ledger to charge. Default: the file DATA.ledger next to the data, if it exists; or else the ledger that was
        charged for these rows before; or else a new DATA.ledger, or for a DataFrame a new ledger in the user's data
        folder. Built-in data are charged to run.ledger in `out`, or without `out` to a temporary ledger.
    new_ledger
        Create a new ledger although another ledger was charged for nearly the same rows.
    limit
        The total epsilon of a new ledger. Default: the epsilon of this run; for `advise`, `pilot` plus `epsilon`; for
        `crossover`, a given `total`.
    dry_run
        Plan without charging or training.
    out
        The new folder for the result.
    seed
        The random seed. A seeded result is not for release.
    sign
        A PEM file with an Ed25519 private key that signs the result.
    say
        A function that receives the plan and the progress, one sentence at a time. Default: only the progress of a
        training of more than two seconds is written, to standard error.
    verbose
        Show every sentence of the plan, with the mechanism and the noise of each release. Default: a summary.
    """

    target: str | None
    task: str | None
    delta: float | None
    schema: Schema | str | Path | None
    accept_schema: bool
    private_schema: bool
    kinds: Mapping[str, str] | str | Path | None
    unit: str | None
    cap: int
    not_persons: str | Sequence[str] | None
    check_persons: bool | str | Sequence[str]
    header: bool | None
    sep: str | None
    decimal: str | None
    encoding: str | None
    ledger: Ledger | str | Path | None
    new_ledger: bool
    limit: float | None
    dry_run: bool
    out: str | Path | None
    seed: int | None
    sign: str | Path | None
    say: Say | None
    verbose: bool


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of one run, as one value that is checked once. `RunArguments` describes those not listed here.

    Attributes
    ----------
    test
        Rows for a test score, which is for the data owner only.
    public
        Public rows, for learners and searches that use them.
    describe
        The owner's statement, as a mapping or a TOML file.
    device
        "cpu", "cuda", or one GPU such as "cuda:1".
    ray
        The address of a Ray cluster. If processes can share the training of the learner of the run
        (`trains_on_ranks`), processes of the cluster train together with this process. Otherwise its workers read the
        rows.
    """

    target: str | None = None
    task: str | None = None
    delta: float | None = None
    schema: Schema | str | Path | None = None
    accept_schema: bool = False
    private_schema: bool = False
    kinds: Mapping[str, str] | str | Path | None = None
    unit: str | None = None
    cap: int = 1
    not_persons: str | Sequence[str] | None = None
    check_persons: bool | str | Sequence[str] = False
    header: bool | None = None
    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    ledger: Ledger | str | Path | None = None
    new_ledger: bool = False
    limit: float | None = None
    dry_run: bool = False
    out: str | Path | None = None
    seed: int | None = None
    sign: str | Path | None = None
    say: Say | None = None
    verbose: bool = False
    test: Any = field(default=None, repr=False)
    public: Any = field(default=None, repr=False)
    describe: Mapping[str, Any] | str | Path | None = field(default=None, repr=False)
    device: str = "cpu"
    ray: str | None = None

    def __post_init__(self) -> None:
        for name in ("target", "unit"):
            column = getattr(self, name)
            expect(column is None or isinstance(column, str), "", f"--{name} as the name of one column", column)
        expect_annotated(type(self).__annotations__, vars(self))
        expect_count("the unit", cap=self.cap)
        expect(self.task in (None, *TASKS), "", "--task as classification or regression", self.task)
        expect_device(self.device)
        for name in ("not_persons", "check_persons"):
            given = getattr(self, name)
            names = () if given is None else (given,) if isinstance(given, str) else given
            object.__setattr__(self, name, names if isinstance(names, bool) else tuple(names))
        if self.unit not in (None, "row") and self.check_persons:
            raise WrongInput(
                f"expected one of --unit={self.unit!r} and --check-persons, got both; leave one of them out"
            )
        if self.cap > 1 and self.unit in (None, "row") and self.schema is None:
            raise WrongInput(
                f"expected --unit COLUMN beside --cap={self.cap}, got no column that identifies persons; name it, or "
                "leave --cap out"
            )
        if self.not_persons and self.unit in self.not_persons:
            raise WrongInput(f"expected one of --unit={self.unit!r} and --not-persons={self.unit!r}, got both")
        if self.kinds is not None and self.schema is not None:
            raise WrongInput("expected one of --schema and --kinds, got both; declare the kinds in the schema")
        if self.new_ledger and self.ledger is not None:
            raise WrongInput("expected one of --ledger and --new-ledger, got both")
        if self.sign is not None and self.out is None:
            raise WrongInput("expected --out with --sign: a signature is written beside the result")

    @classmethod
    def of(cls, arguments: Mapping[str, Any], **more: Any) -> RunOptions:
        """Build the options from the keyword arguments of a verb; `more` are options that only some verbs have.

        Raise `TypeError` for an unknown argument, and `WrongInput` for values that contradict each other.

        >>> RunOptions.of({"limits": 1.0})
        Traceback (most recent call last):
        TypeError: there is no argument 'limits'; did you mean limit?
        """
        known = list(RunArguments.__annotations__)
        if unknown := [name for name in arguments if name not in known]:
            near = nearest(unknown[0], known)
            others = f"did you mean {near}?" if near else f"beside its own, a function takes {', '.join(known)}"
            raise TypeError(f"there is no argument {unknown[0]!r}; {others}")
        return cls(**arguments, **more)

    def delta_for(self, schema: Schema) -> float:
        """Return the requested delta, or else the default delta for the number of rows (`default_delta`).

        >>> RunOptions().delta_for(Schema(rows=2_000_000)), RunOptions(delta=1e-6).delta_for(Schema(rows=500))
        (5e-08, 1e-06)
        """
        return default_delta(schema.rows) if self.delta is None else self.delta

    @property
    def reading(self) -> dict[str, Any]:
        """The options of `privaware.data.read` for text files: `header`, `sep`, `decimal` and `encoding`."""
        return {"header": self.header, "sep": self.sep, "decimal": self.decimal, "encoding": self.encoding}

    @property
    def folder(self) -> Path | None:
        """The folder for the result; None if `out` was not given."""
        return None if self.out is None else Path(self.out)

    @property
    def ledger_path(self) -> Path | None:
        """The file of the given ledger; None if no ledger was given."""
        if self.ledger is None:
            return None
        return self.ledger.path if isinstance(self.ledger, Ledger) else Path(self.ledger)


def shows_run_options(verb: Verb) -> Verb:
    """Decorate a public function, such as `fit`, so that Python's `help` lists the run options, not `**run_options`."""
    signature = inspect.signature(verb)
    parameters = [
        parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD
    ]
    defaults = {parameter.name: parameter.default for parameter in fields(RunOptions)}
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=kind.__forward_arg__)
        for name, kind in RunArguments.__annotations__.items()
    ]
    verb.__signature__ = signature.replace(parameters=[*parameters, *shared])  # type: ignore[attr-defined]
    return verb


def expect_device(device: str) -> None:
    """Raise `WrongInput` for a device that is neither a CPU nor a CUDA device of this machine."""
    if device == "cpu":
        return
    import torch

    try:
        if torch.empty(0, device=device).device.type in ("cpu", "cuda"):
            return
    except (RuntimeError, AssertionError, TypeError):
        pass
    raise WrongInput(f"expected --device as cpu, or cuda on a machine with a GPU, got {device!r:.80}")
