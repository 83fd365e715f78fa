"""Training of a user's own network, end to end."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from privaware import Ledger, fit, train
from privaware.accounting import epsilon
from privaware.descent import Descent, adam, anchored, cross_entropy, flat
from privaware.errors import BudgetExceeded, OverlapWarning, PrivawareError, Refused, WrongInput
from privaware.ledger import ledger_lines

SETTINGS = {"epsilon": 1.0, "steps": 5, "sampling_rate": 0.2, "clipping_norm": 1.0, "lr": 0.5}
"""A short training."""


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "rows.ledger", limit=1.0)


def task(seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(600, 4, generator=generator)
    return x, (x[:, 0] + x[:, 1] > 0).long()


def test_a_network_is_trained_on_a_copy():
    x, y = task()
    module = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    before = [p.clone() for p in module.parameters()]
    trained = train(
        module, x, y, epsilon=4.0, delta=1e-5, steps=np.int64(60), sampling_rate=0.2, clipping_norm=1.0, lr=1.0, seed=1
    )
    assert all(torch.equal(p, q) for p, q in zip(module.parameters(), before, strict=True))
    assert float((trained(x).argmax(1) == y).float().mean()) > 0.85


def test_ledger_is_charged_the_stated_cost_and_refuses_more(tmp_path):
    x, y = task()
    ledger = Ledger.open_or_create(tmp_path / "book.ledger", limit=1.5, delta=1e-5)
    settings = {"delta": 1e-5, "steps": 10, "sampling_rate": 0.2, "clipping_norm": 1.0, "lr": 0.5, "ledger": ledger}
    train(nn.Linear(4, 2), x, y, epsilon=1.0, **settings)
    assert [entry.kind for entry in ledger.entries()] == ["created", "spend", "finished"]
    spent = epsilon(ledger.entries()[1].event, 1e-5)
    assert 0.95 < spent <= 1.0
    with pytest.raises(BudgetExceeded):
        train(nn.Linear(4, 2), x, y, epsilon=1.4, **settings)


def test_call_interrupted_without_checkpoint_is_listed_as_open(tmp_path):
    def interrupt(step, steps, seconds_left):
        raise KeyboardInterrupt

    x, y = task()
    ledger = Ledger.open_or_create(tmp_path / "book.ledger", limit=1.5, delta=1e-5)
    settings = {"steps": 10, "sampling_rate": 0.2, "clipping_norm": 1.0, "lr": 0.5, "ledger": ledger}
    with pytest.raises(KeyboardInterrupt):
        train(nn.Linear(4, 2), x, y, epsilon=1.0, progress=interrupt, **settings)
    (unfinished,) = ledger.json()["open"]
    assert unfinished["number"] == 1
    said = ledger_lines(ledger.json(totals=True))[-1]
    assert "is charged but not finished" in said
    assert "cannot be resumed, because it had no checkpoint" in said
    ledger.close(1)
    assert ledger.json()["open"] == []


def test_ledger_may_be_named_by_its_file(tmp_path):
    x, y = task()
    settings = {
        "epsilon": 1.0,
        "steps": 5,
        "sampling_rate": 0.2,
        "clipping_norm": 1.0,
        "lr": 0.5,
        "ledger": tmp_path / "rows.ledger",
    }
    train(nn.Linear(4, 2), x, y, **settings)
    assert Ledger.open(tmp_path / "rows.ledger").json()["limit"] == 1.0
    with pytest.raises(BudgetExceeded):
        train(nn.Linear(4, 2), x, y, **settings)


def test_delta_too_large_for_the_rows_is_refused():
    x, y = task()
    with pytest.raises(WrongInput, match="below 1 / rows"):
        train(nn.Linear(4, 2), x, y, epsilon=1.0, delta=0.01, steps=1, sampling_rate=1.0, clipping_norm=1.0, lr=0.5)


def test_p49_rows_from_memory_are_charged_once_and_for_all(monkeypatch):
    x, y = task()
    train(nn.Linear(4, 2), x, y, **SETTINGS)
    flipped = torch.arange(len(y) - 1, -1, -1)
    with pytest.raises(BudgetExceeded):
        train(nn.Linear(4, 2), x[flipped].double().numpy(), y[flipped].numpy(), **SETTINGS)
    with pytest.warns(
        OverlapWarning, match="a table that probably shares rows with this one is charged to another ledger too"
    ):
        train(nn.Linear(4, 2), x[1:], y[1:], **SETTINGS)
    monkeypatch.setattr(Descent, "run", lambda *_, **__: pytest.fail("trained without a charge"))
    with pytest.raises(BudgetExceeded):
        train(nn.Linear(4, 2), x, y, **SETTINGS)


@pytest.mark.parametrize("trained_first", [True, False])
def test_p49_arrays_are_recognised_as_rows_of_a_table(trained_first):
    x, y = task()
    table = pd.DataFrame(x.numpy(), columns=list("abcd")).assign(number=range(len(y)), label=np.where(y, "yes", "no"))
    runs = [
        lambda: train(nn.Linear(5, 2), torch.cat([x, torch.arange(len(y))[:, None]], 1), y, **SETTINGS),
        lambda: fit(table[::-1], target="label", epsilon=1.0, learner="linear"),
    ]
    first, second = runs if trained_first else runs[::-1]
    first()
    with pytest.warns(OverlapWarning, match="a table that probably shares rows with this one is charged to another"):
        second()


def test_arrays_of_other_rows_are_strangers():
    for seed in (0, 1):
        x, y = task(seed)
        train(nn.Linear(5, 2), torch.cat([x, torch.arange(len(y))[:, None]], 1), y, **SETTINGS)  # numbered rows


def test_trained_module_carries_its_guarantee(tmp_path):
    x, y = task()
    trained = train(nn.Linear(4, 2), x, y, ledger=tmp_path / "rows.ledger", **SETTINGS)
    guarantee = trained.guarantee
    assert guarantee.epsilon == pytest.approx(Ledger.open(tmp_path / "rows.ledger").spent())
    assert (guarantee.delta, guarantee.unit, guarantee.certified) == (1e-5, "row", True)
    assert "Adding or removing any one row" in guarantee.sentence
    [public] = [assumed for assumed in guarantee.assumptions if assumed.startswith("public: the number of rows")]
    assert "which is the number of targets" in public
    assert "probability 0.2" in guarantee.sampler
    others, classes = task(seed=1)
    seeded = train(nn.Linear(4, 2), others, classes, seed=3, **SETTINGS)
    assert not seeded.guarantee.certified
    for copied in (copy.deepcopy(trained), pickle.loads(pickle.dumps(trained))):
        assert copied.guarantee == guarantee
        assert torch.equal(copied.weight, trained.weight)
    assert trained.state_dict().keys() == nn.Linear(4, 2).state_dict().keys()  # loads into a plain module
    assert "NOT FOR RELEASE" in seeded.guarantee.sentence


class DrawsItself(nn.Module):
    """Drops units by a function, so that masks belong to no example."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, inputs):
        return self.layer(nn.functional.dropout(inputs, 0.5, self.training))


@pytest.mark.parametrize(
    ("module", "rows", "error", "message"),
    [
        (nn.Linear(4, 2), 599, WrongInput, "expected one target"),
        (nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)), 600, PrivawareError, "batch norm"),
        (DrawsItself(), 600, PrivawareError, "draws random numbers in its forward pass"),
        (nn.Linear(4, 2).half(), 600, Refused, "of float32 or float64, got torch.float16; train module"),
        (nn.Linear(4, 2).bfloat16(), 600, Refused, "of float32 or float64, got torch.bfloat16; train module"),
    ],
    ids=["a row without target", "batch norm", "own masks", "float16", "bfloat16"],
)
def test_module_or_rows_that_cannot_be_trained_cost_nothing(module, rows, error, message, ledger):
    x, y = task()
    with pytest.raises(error, match=message):
        train(module, x, y[-rows:], **SETTINGS, ledger=ledger)
    assert ledger.spent() == 0


@pytest.mark.parametrize("column", ["class", "token", "number"])
def test_rows_that_the_module_cannot_use_cost_nothing(column, ledger):
    x, y = task()
    tokens = (x > 0).long()
    module = nn.Sequential(nn.Embedding(2, 4), nn.Flatten(), nn.Linear(16, 2)) if column == "token" else nn.Linear(4, 2)
    {"class": y, "token": tokens[:, 0], "number": x[:, 0]}[column][130] = torch.nan if column == "number" else 77
    with pytest.raises(WrongInput, match="rows 128 to 191") as problem:
        train(module, tokens if column == "token" else x, y, **SETTINGS, ledger=ledger)
    assert "77" not in str(problem.value)
    assert ledger.spent() == 0


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"clip_norm": 1.0}, r"no argument 'clip_norm'; did you mean clipping_norm\?"),
        ({"optimiser": torch.optim.SGD}, r"no argument 'optimiser'; did you mean optimizer\?"),
        ({"batch_size": 8}, "no argument 'batch_size'; give sampling_rate, the expected batch size divided by"),
        ({"epochs": 2}, "no argument 'epochs'; give steps"),
        ({"steps": 0}, "expected steps as a whole number >= 1, got 0"),
        ({"rows": 0}, "expected rows as a whole number >= 1, got 0"),
        ({"average": {}}, "expected average as an object of privaware.descent with a method initial_state"),
        ({"checkpoint": 1}, "expected checkpoint as the path of a file, got 1"),
        ({"device": 0.5}, "expected device= as cpu, or cuda on a machine with a GPU, got 0.5"),
        ({"seed": -1}, "expected seed as a whole number >= 0, or none at all, got -1"),
        ({"strategy": 2}, "no argument 'strategy'; further arguments are .*optimizer"),
        (
            {"loss": nn.CrossEntropyLoss()},
            "one value for each example, got one value for all .*; pass reduction='none'",
        ),
        ({"module": nn.Linear}, r"expected a torch\.nn\.Module to train, got the class Linear"),
        ({"targets": torch.zeros(60)}, "expected target dtype to be Long or Byte, but got Float"),
        ({"targets": 1}, "expected tensors or arrays with one entry for each row, got 1"),
        ({"inputs": pd.DataFrame(np.zeros((60, 4)))}, r"got a DataFrame; pass its to_numpy\(\)"),
        ({"epsilon": "1"}, "expected epsilon as a number > 0, got '1'"),
        ({"clip": 1.0}, "expected clip as an object of privaware.descent with a method factors, got 1.0"),
        ({"augment": lambda inputs: inputs}, r"the loss and augment can use, .* fail \(TypeError"),
        ({"checkpoint": "no folder/run"}, "a checkpoint in a folder that exists"),
        ({"progress": lambda step: None}, "expected progress as a function of step, steps and seconds_left"),
        ({"progress": "yes"}, "expected progress as a function of .*, got 'yes'"),
        ({"device": "tpu"}, "got 'tpu'"),
        ({"norm": 2.0}, "expected one of clipping_norm and its earlier name norm, got both"),
        ({"clip": flat(2.0)}, "expected clipping_norm as in clip, got 1 beside a clip with the norm 2"),
        ({"update": adam(0.1)}, "expected the learning rate once, got lr beside an update"),
        ({"checkpoint": "."}, r"a checkpoint of privaware, got another file at '\.'"),
        ({"checkpoint": __file__}, "a checkpoint of privaware, got another file at "),
    ],
)
def test_wrong_call_is_one_sentence_and_costs_nothing(changed, words, ledger):
    call = {"module": nn.Linear(4, 2), "inputs": torch.zeros(60, 4), "targets": torch.zeros(60, dtype=torch.long)}
    with pytest.raises(WrongInput, match=words):
        train(**{**call, **SETTINGS, "ledger": ledger, **changed})
    assert ledger.spent() == 0


@pytest.mark.parametrize("compiled", ["module", "layer", "function"])
def test_compiled_module_is_trained_like_the_module(compiled, tmp_path):
    class Compiled(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        @torch.compile(backend="eager")
        def forward(self, inputs):
            return self.module(inputs)

    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    given = copy.deepcopy(module)
    if compiled == "layer":
        given[0] = torch.compile(given[0], backend="eager")
    else:
        given = torch.compile(given, backend="eager") if compiled == "module" else Compiled(given)
    settings = {"epsilon": 1.0, "steps": 3, "sampling_rate": 0.2, "clipping_norm": 1.0, "lr": 0.5, "seed": 1}
    ledger = Ledger.create(tmp_path / "rows.ledger", limit=9.0)
    first, second = (train(each, *task(), ledger=ledger, **settings) for each in (module, given))
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


def test_module_is_trained_in_inference_mode(tmp_path):
    x, y = task()
    module = nn.Linear(4, 2)
    settings = {"epsilon": 1.0, "steps": 3, "sampling_rate": 0.2, "clipping_norm": 1.0, "lr": 0.5}
    with torch.inference_mode():
        trained = train(module, x, y, ledger=tmp_path / "rows.ledger", **settings)
    assert not torch.equal(trained.weight, module.weight)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_scripted_module_costs_nothing(ledger):
    for module in (torch.jit.script(nn.Linear(4, 2)), torch.jit.trace(nn.Linear(4, 2), torch.zeros(1, 4))):
        with pytest.raises(Refused, match=r"the module is a module of TorchScript, .*; train the module that it was"):
            train(module, *task(), **SETTINGS, ledger=ledger)
    assert ledger.spent() == 0


def test_earlier_keyword_names_warn_and_train(tmp_path):
    x, y = task()
    with pytest.warns(DeprecationWarning, match="rate is called sampling_rate now"):
        train(nn.Linear(4, 2), x, y, epsilon=1.0, steps=5, rate=0.2, clipping_norm=1.0, lr=0.5, ledger=tmp_path / "l")


def test_progress_of_long_training_is_written_to_stderr(capsys, monkeypatch):
    monkeypatch.setattr("privaware.workflow.run.progress.FIRST_SECONDS", 0.0)
    x, y = task()
    settings = {**SETTINGS, "seed": 1}
    train(nn.Linear(4, 2), x, y, **settings)
    assert "step 1 of 5" in capsys.readouterr().err
    train(nn.Linear(4, 2), x + 1, y, progress=False, **settings)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("training", [True, False])
def test_trained_copy_has_the_mode_of_the_given_module(training: bool) -> None:
    module = nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.5)).train(training)
    inputs = torch.randn(60, 4)
    settings = {"epsilon": 1.0, "steps": 2, "sampling_rate": 0.5, "clipping_norm": 1.0, "lr": 0.1, "seed": 0}
    assert train(module, inputs, (inputs[:, 0] > 0).long(), **settings).training is training


def test_private_rows_are_no_public_examples_of_a_projection(tmp_path):
    x, y = task()
    settings = {**SETTINGS, "ledger": tmp_path / "rows.ledger"}
    for inputs in (x, x[100:160], torch.cat([x[:200], torch.randn(40, 4)])):
        of_rows = anchored(inputs=lambda inputs=inputs: inputs, classes=2, directions=4, blocks=1)
        with pytest.raises(WrongInput, match="share rows with the private ones"):
            train(nn.Linear(4, 2), x, y, projection=of_rows, **settings)
    assert not settings["ledger"].exists()
    of_strangers = anchored(inputs=lambda: task(seed=1)[0][:60], classes=2, directions=4, blocks=1)
    train(nn.Linear(4, 2), x, y, projection=of_strangers, **settings)


class NotClipping(flat):
    def factors(self, squares, norm):
        return torch.ones(len(squares), 1)


class ByMedian(flat):
    """Clips to the median norm of the batch."""

    def factors(self, squares, norm):
        return super().factors(squares, squares.nan_to_num().median().sqrt().clamp(max=norm).item())


class Turning:
    """A loss that is weighted by the mean loss of the batch after the first step."""

    def __call__(self, outputs, targets):
        return cross_entropy(outputs, targets)

    def at(self, progress):
        return self if progress == 0 else lambda *batch: self(*batch) * self(*batch).mean()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"clip": NotClipping(1.0)}, "NotClipping does not clip"),
        ({"clip": ByMedian(1.0)}, "ByMedian scales the gradient of an example by other examples"),
        ({"loss": Turning()}, "not independent"),
    ],
    ids=["no clip", "clip by median", "later loss"],
)
def test_own_clip_or_loss_without_a_bound_costs_nothing(ledger, changed, words):
    with pytest.raises(Refused, match=words):
        train(nn.Linear(4, 2), *task(), **SETTINGS, ledger=ledger, **changed)
    assert ledger.spent() == 0


@pytest.mark.parametrize(
    ("augment", "copies"),
    [
        (lambda inputs, _: (inputs + inputs.flip(0)) / 2, 1),
        (lambda inputs, _: inputs - inputs.mean(0), 1),
        (lambda inputs, _: inputs + torch.randn_like(inputs), 1),
        (lambda inputs, _: inputs / inputs.abs().max().clamp(min=1), 1),
        (lambda inputs, _: inputs * (-1.0) ** torch.arange(len(inputs))[:, None], 3),
    ],
    ids=["mixed", "centred", "other draws", "by maximum", "by place"],
)
def test_p24_augment_that_mixes_examples_costs_nothing(ledger, augment, copies):
    x, y = task()
    settings = {**SETTINGS, "ledger": ledger}
    with pytest.raises(Refused, match="augment each example by itself"):
        train(nn.Linear(4, 2), x, y, **settings, augment=augment, copies=copies)
    assert ledger.spent() == 0
    train(nn.Linear(4, 2), x, y, **settings, augment=lambda rows, draws: rows + draws.normal(rows.shape).to(rows))


@pytest.mark.parametrize(
    "augment",
    [
        lambda rows, _: rows[:, :3],
        lambda rows, _: rows.double(),
        lambda rows, _: rows[1:],
        lambda rows, _: rows.numpy(),
    ],
    ids=["shape", "type", "number", "array"],
)
def test_augment_that_returns_other_tensors_costs_nothing(ledger, augment):
    with pytest.raises(Refused, match="expected the function augment to return a tensor of as many examples"):
        train(nn.Linear(4, 2), *task(), **SETTINGS, ledger=ledger, augment=augment)
    assert ledger.spent() == 0


def test_number_of_rows_may_be_an_integer_of_numpy(ledger):
    assert train(nn.Linear(4, 2), *task(), **SETTINGS, ledger=ledger, rows=np.int64(600)).guarantee.certified


def test_ledger_with_another_delta_is_refused_like_its_file(ledger):
    for place in (ledger, ledger.path):
        with pytest.raises(WrongInput, match=r"expected delta 1e-0?5 as the ledger has it, got 1e-0?6"):
            train(nn.Linear(4, 2), *task(), **{**SETTINGS, "delta": 1e-6}, ledger=place)
    assert ledger.spent() == 0


def test_warnings_of_torch_about_its_own_code_are_hidden(ledger):
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1)
            self.last = nn.Linear(4, 2)

        def forward(self, rows):
            return self.last(self.encoder(rows, src_key_padding_mask=rows[..., 0] > 1.5).mean(1))

    class Warned(nn.Module):
        def __init__(self, words):
            super().__init__()
            self.words, self.last = words, nn.Linear(4, 2)

        def forward(self, rows):
            warnings.warn(self.words, UserWarning, stacklevel=1)
            return self.last(rows)

    y = torch.zeros(600, dtype=torch.long)
    call = {**SETTINGS, "steps": 1, "epsilon": 0.3, "ledger": ledger}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(Encoder().eval(), torch.zeros(600, 3, 4), y, **call)
        train(Warned("There is a performance drop because ..."), torch.zeros(600, 4), y, **call)
    with pytest.warns(UserWarning, match="a warning of the module"):
        train(Warned("a warning of the module"), torch.zeros(600, 4), y, **call)
