"""Update parameters by an optimiser of PyTorch, which sees the noisy mean gradient only.

Privacy: the optimiser is post-processing. Its parameters have the noisy mean gradient as `grad`, and `step` is called
without a closure, so the optimiser can evaluate no loss and see no example.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from privaware.descent._code_facts import code_facts
from privaware.errors import WrongInput

NUMBERS: dict[str, Callable[[float], Any]] = {"int": int, "float": float, "bool": bool}
"""Types of plain numbers in the state of an optimiser, by the name that a checkpoint gives them."""


class OptimizerState(dict[str, Tensor]):
    """The state of `optimizer` as named tensors, which a checkpoint saves and restores; empty before the first step.

    An entry is `N.key` for parameter number N, or `N.key:type` for a plain number. `group N.key:type` is an option of
    parameter group N that steps have changed.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        super().__init__()
        self.optimizer = optimizer
        self.parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self.options = [_numbers(group) for group in optimizer.param_groups]

    def pull(self) -> None:
        """Replace all entries of this dictionary by the present state of `optimizer`.

        Raise `WrongInput` if the state of a parameter has anything but tensors, numbers and None.
        """
        self.clear()
        for at, parameter in enumerate(self.parameters):
            for key, value in self.optimizer.state.get(parameter, {}).items():
                self._put(f"{at}.{key}", value)
        for at, (group, first) in enumerate(zip(self.optimizer.param_groups, self.options, strict=True)):
            for key, value in _numbers(group).items():
                if key != "lr" and value != first.get(key):
                    self._put(f"group {at}.{key}", value)

    def push(self) -> None:
        """Set the state of the optimiser, which has taken no step, from the entries of this dictionary.

        A checkpoint has restored these entries.
        """
        loaded = self.optimizer.state_dict()
        for name, value in self.items():
            owner, _, key = name.partition(".")
            key, _, kind = key.partition(":")
            plain = NUMBERS[kind](value.item()) if kind else value
            if owner.startswith("group "):
                loaded["param_groups"][int(owner.removeprefix("group "))][key] = plain
            else:
                loaded["state"].setdefault(int(owner), {})[key] = plain
        self.optimizer.load_state_dict(loaded)

    def _put(self, name: str, value: Any) -> None:
        if isinstance(value, Tensor):
            self[name] = value
        elif type(value).__name__ in NUMBERS:
            self[f"{name}:{type(value).__name__}"] = torch.tensor(value, dtype=torch.float64)
        elif value is not None:
            raise WrongInput(
                f"expected an optimiser whose state is tensors and numbers, got a {type(value).__name__} in "
                f"{type(self.optimizer).__name__}; take another optimiser"
            )


def _numbers(group: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if type(value).__name__ in NUMBERS}


@dataclass(frozen=True, eq=False, repr=False)
class TorchOptimizer:
    """An update by an optimiser of PyTorch, for one model.

    `optimizer` is a template that never takes a step; `shapes` are the shapes of its parameters by their names, in the
    order of the model, and `order` their names in the order of the template. `lr` is a factor of the learning rates of
    the template.
    """

    optimizer: Optimizer
    shapes: dict[str, tuple[int, ...]]
    order: tuple[str, ...]
    lr: float = field(default=1.0, init=False)

    def __repr__(self) -> str:
        kind = type(self.optimizer)
        groups = [{key: value for key, value in group.items() if key != "params"} for group in self._groups]
        sizes = [len(group["params"]) for group in self._groups]
        facts = [code_facts(groups), code_facts(kind.step), sizes, self.order]
        return f"torch_optimizer({kind.__module__}.{kind.__qualname__}, {facts})"

    @property
    def _groups(self) -> list[dict[str, Any]]:
        return self.optimizer.param_groups

    def initial_state(self, theta: Tensor) -> dict[str, Tensor]:
        if len(theta) != 1:
            raise WrongInput(f"expected one model with an optimiser of PyTorch, got a population of {len(theta)}")
        return OptimizerState(self._bound(self._views(theta)))

    def apply(self, theta: Tensor, gradient: Tensor, state: dict[str, Tensor], lr: Any, deviation: Any) -> None:
        assert isinstance(state, OptimizerState)
        optimizer, views = state.optimizer, self._views(theta)
        if state and not optimizer.state:
            state.push()
        for name, values in self._views(gradient).items():
            state.parameters[self.order.index(name)].grad = values
        for group, template in zip(optimizer.param_groups, self._groups, strict=True):
            if "lr" in template:
                group["lr"] = template["lr"] * float(lr)
        optimizer.step()
        for name, parameter in zip(self.order, state.parameters, strict=True):
            parameter.grad = None
            if parameter.data_ptr() != views[name].data_ptr():  # the optimiser replaced the values, not changed them
                views[name].copy_(parameter.data)
                parameter.data = views[name]
        state.pull()

    def check(self) -> None:
        """Take one step with zero gradients on copies; raise `WrongInput` if it fails or a closure is required."""
        step = inspect.signature(type(self.optimizer).step).parameters
        name, closure = type(self.optimizer).__name__, step.get("closure")
        if closure is not None and closure.default is inspect.Parameter.empty:
            raise WrongInput(
                f"expected an optimiser that needs the gradient only, got {name}, which evaluates the loss again by a "
                "closure; every evaluation would have to be charged, so take another, such as torch.optim.AdamW"
            )
        theta = torch.cat([parameter.detach().flatten() for parameter in self._parameters()])[None].clone()
        try:
            self.apply(theta, torch.zeros_like(theta), self.initial_state(theta), 1.0, 0.0)
        except WrongInput:
            raise
        except Exception as problem:  # an optimiser may raise anything if it does not find what it needs
            reason = " ".join(f"{type(problem).__name__}: {problem}".split())
            raise WrongInput(
                f"expected an optimiser that takes a step by the gradient only, got {name}, which failed without a "
                f"closure and per-example gradients ({reason:.120})"
            ) from None

    def _parameters(self) -> list[Tensor]:
        """Return the parameters of the template, in the order of the model."""
        named = dict(zip(self.order, (each for group in self._groups for each in group["params"]), strict=True))
        return [named[name] for name in self.shapes]

    def _views(self, flat: Tensor) -> dict[str, Tensor]:
        """Return the parameters that lie one after another in `flat` (1, trainable), by name."""
        sizes = [torch.Size(shape).numel() for shape in self.shapes.values()]
        parts = zip(self.shapes.items(), flat[0].split(sizes), strict=True)
        return {name: part.view(shape) for (name, shape), part in parts}

    def _bound(self, views: dict[str, Tensor]) -> Optimizer:
        """Return a copy of the template, without state, whose parameters share the memory of `views`."""
        bound = object.__new__(type(self.optimizer))
        vars(bound).update(vars(self.optimizer))
        bound.state, bound.param_groups = type(self.optimizer.state)(dict), []
        names = iter(self.order)
        for group in self._groups:
            parameters = [nn.Parameter(views[next(names)], requires_grad=True) for _ in group["params"]]
            bound.param_groups.append({**group, "params": parameters})
        return bound


def torch_optimizer(optimizer: Any, module: nn.Module, lr: float | None = None) -> TorchOptimizer:
    """Return an update for `Descent` that moves the parameters by an optimiser of PyTorch.

    Parameters
    ----------
    optimizer : type, callable or torch.optim.Optimizer
        A class such as `torch.optim.AdamW`, a function that takes a list of parameters and returns an optimiser, or a
        new optimiser of the parameters of `module`. A class or function is called with `lr` if it is given.
    module : nn.Module
        The module that will be trained.
    lr : float, optional
        The learning rate of a class or function; without it their default. The recipe's `lr_schedule` multiplies the
        learning rates of the optimiser.

    Returns
    -------
    TorchOptimizer
        The update, for one model.

    Raises
    ------
    WrongInput
        If the optimiser has taken steps, needs a closure, or has other parameters than the trainable ones of `module`;
        if `lr` is given together with an optimiser; or if `optimizer` is something else, or fails when it is called.

    Examples
    --------
    >>> network = nn.Linear(2, 2)
    >>> torch_optimizer(torch.optim.AdamW, network, lr=0.1).optimizer.defaults["lr"]
    0.1
    """
    trainable = {name: value for name, value in module.named_parameters() if value.requires_grad}
    if isinstance(optimizer, Optimizer):
        if lr is not None:
            raise WrongInput("expected the learning rate once, got lr beside an optimiser with its own; leave lr out")
        if optimizer.state:
            raise WrongInput("expected a new optimiser, got one that has taken steps; make another for this training")
        built = optimizer
    else:
        built = _built(optimizer, list(trainable.values()), lr)
    update = TorchOptimizer(
        optimizer=built,
        shapes={name: tuple(value.shape) for name, value in trainable.items()},
        order=_order(built, trainable),
    )
    update.check()
    return update


def _built(make: Any, parameters: Sequence[nn.Parameter], lr: float | None) -> Optimizer:
    expected = "expected an optimiser of PyTorch, its class, or a function from parameters to an optimiser"
    if not callable(make):
        raise WrongInput(f"{expected}, got {type(make).__name__}")
    try:
        built = make(parameters) if lr is None else make(parameters, lr=lr)
    except (TypeError, ValueError) as problem:
        raise WrongInput(f"{expected}, got one that failed: {problem!s:.160}") from None
    if not isinstance(built, Optimizer):
        raise WrongInput(f"{expected}, got a function that returns {type(built).__name__}")
    return built


def _order(optimizer: Optimizer, trainable: dict[str, nn.Parameter]) -> tuple[str, ...]:
    """Return the names of the optimiser's parameters, in its order, from `trainable` (parameters by name).

    Raise `WrongInput` unless the optimiser has exactly the parameters in `trainable`.
    """
    names = {id(value): name for name, value in trainable.items()}
    given = [names.get(id(value)) for group in optimizer.param_groups for value in group["params"]]
    order = tuple(name for name in given if name is not None)
    if len(order) < len(given) or set(order) != set(trainable):
        raise WrongInput(
            "expected an optimiser of all trainable parameters of the module and of no others; pass "
            "`module.parameters()` to it, and freeze other parameters with `requires_grad_(False)`"
        )
    return order
