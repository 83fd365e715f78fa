"""The evidence of `privaware advise`: each piece is one sentence with our own numbers, and a paper's claim beside it.

All numbers come from stored cells and from the published tables; `differs` says that the two disagree. `_advice.py`
writes them into the package.
"""

from __future__ import annotations

import json
from functools import cache
from statistics import mean
from typing import Any

from privaware.bench._store import Cell
from research.papers import find
from research.papers._dpmlbench_findings import group_norm as group_norm_verdict
from research.papers._dpmlbench_findings import labels_useful
from research.papers._dpmlbench_leakage import LEAKAGE
from research.papers._dpmlbench_means import Means
from research.papers._page import Page
from research.papers._results import shown_rows

__all__ = ["evidence", "page"]

Evidence = dict[str, Any]


@cache
def page(name: str) -> Page:
    return Page(name)


def _cell(name: str, item: str, **settings: Any) -> Cell:
    return page(name).cell(item, **settings)


def _entry(name: str, item: str, ours: str, paper: str = "", *, differs: bool = False) -> Evidence:
    source = {"page": f"docs/results/{name}.md", "command": f"privaware reproduce {item}"}
    return {"ours": ours, "paper": paper, "differs": differs, **source}


def _rows(name: str, item: str, at: int = 0) -> dict[str, list[str]]:
    """The rows of a stored table by their first column."""
    return {row[0]: row[1:] for row in shown_rows(_cell(name, item).result["tables"][at])}


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def crossovers() -> Evidence:
    """Up to which epsilon the network chosen with noise in mind is better."""
    names = ("mnist", "fashion_mnist", "svhn", "cifar10")
    crossings = {name: _cell("studies", f"bao/figure7/{name}").result["values"]["crossover"] for name in names}
    words = ", ".join(f"{name} {value:.3g}" for name, value in crossings.items())
    ours = f"the smaller of two fully connected networks was better up to epsilon: {words}"
    entry = _entry(
        "studies", "bao/figure7/mnist", ours, f"Bao et al., Figure 7: {_published('bao/figure7/mnist', 'crossover')}"
    )
    return {**entry, "differs": True, "crossovers": crossings}


def _published(item: str, key: str) -> Any:
    return find(item).published[key]


def logistic() -> Evidence:
    words = _cell("studies", "bao/figure8").result["words"]
    ours = f"MNIST, pixels. {words[0]} {words[1].split(' (paper')[0]}."
    paper = f"Bao et al., Figure 8: a CNN overtakes logistic regression {_published('bao/figure8', 'CNN')}"
    return _entry("studies", "bao/figure8", ours, paper, differs=True)


def frozen_layers() -> Evidence:
    """Random weights training: the crossing of frozen layers and all layers."""
    fcn, cnn = (words.split(" (paper")[0] for words in _cell("studies", "bao/figure10").result["words"])
    rows = _rows("studies", "bao/figure10")
    low = min(rows, key=float)
    ours = (
        f"MNIST. {fcn.replace('the simple model', 'training only the last two layers')}: at epsilon {low} "
        f"{rows[low][0]} with all layers and {rows[low][1]} with the last two. {cnn}."
    )
    paper = (
        f"Bao et al., Figure 10: freeze below epsilon {_published('bao/figure10', 'FCN')} (fully connected) "
        f"and {_published('bao/figure10', 'CNN')} (CNN)"
    )
    return _entry("studies", "bao/figure10", ours, paper, differs=True)


def depth() -> Evidence:
    points = [point for chart in _cell("studies", "bao/figure12").result["charts"] for point in chart["points"]]
    deep = [p for p in points if p["curve"] == "deeper, DP-SGD"]
    wide = [p for p in points if p["curve"] == "wider, DP-SGD"]
    last = max(deep, key=lambda p: p["x"])
    beside = min(wide, key=lambda p: abs(p["x"] - last["x"]))
    ours = (
        f"SVHN at epsilon 2.57: {last['x']:,.0f} parameters in twelve layers {_percent(last['mean'])}, "
        f"{beside['x']:,.0f} in one {_percent(beside['mean'])}"
    )
    return _entry("studies", "bao/figure12", ours, "Bao et al., Figure 12: noise hurts depth more than width")


def step_size() -> Evidence:
    rows = _rows("studies", "bao/figure9")
    best = max(rows, key=lambda rate: float(rows[rate][0].split()[0]))
    ours = f"SVHN at epsilon 5.38: {rows['0.03'][0]} at step size 0.03, {rows[best][0]} at {best}"
    return _entry("studies", "bao/figure9", ours, "Bao et al., Figure 9: each network needs a step size of its own")


def columns() -> Evidence:
    """Few columns against all of them, where noise grows with the columns and where it does not."""
    pair = _cell("features", "bao/figure3/six").result
    linear = _cell("core", "ours/core", data="adult", epsilon=0.1).result["score"]
    ours = (
        f"Adult at epsilon 0.1: objective perturbation on the six best columns {pair['few']['0.1'][0]:.1f}, on all 108 "
        f"{pair['all']['0.1'][0]:.1f} (the choice not charged); the learner linear on all columns {_percent(linear)}"
    )
    crossing = _published("bao/figure3/six", "crossing")
    paper = f"Bao et al., Figure 3: few columns are better, until all overtake the best six {crossing}"
    return _entry("features", "bao/figure3/six", ours, paper, differs=True)


def charged_columns() -> Evidence:
    score = {
        name: _cell("features", "bao/table10/charged", selector=name, epsilon=1.0).result["score"][0]
        for name in ("all", "top (3)", "cfs_greedy")
    }
    linear = _cell("core", "ours/core", data="breast_cancer", epsilon=1.0, learner="linear").result
    ours = (
        f"breast_cancer (191 rows) at epsilon 1, the choice charged: objective perturbation on all columns "
        f"{score['all']:.1f}, on three chosen by top {score['top (3)']:.1f}, by cfs_greedy {score['cfs_greedy']:.1f}; "
        f"the learner linear on all columns {_percent(linear['score'])}, a constant {_percent(linear['constant'])}"
    )
    return _entry(
        "features", "bao/table10/charged", ours, "Bao et al., Table X: selection pays, its own price left out"
    )


def components() -> Evidence:
    """Private principal components out of the same budget."""
    scores = {
        name: mean(_cell("features", "bao/table5", inputs=name, network=network, training="private").result["scores"])
        for name, network in (("no PCA", "512-64-256-10"), ("PCA, noise 8", "300-128-10"))
    }
    ours = (
        f"grey SVHN at epsilon 2.58, the smaller network: {scores['no PCA']:.1f} on pixels, "
        f"{scores['PCA, noise 8']:.1f} on 300 private components paid from the same budget"
    )
    return _entry("features", "bao/table5", ours, "Bao et al., Table V: 70.38 and 76.10, the components not charged")


def one_hot() -> Evidence:
    pair = _cell("features", "bao/table16").result
    ours = (
        f"Adult, objective perturbation: six columns without one-hot codes {pair['few']['1'][0]:.1f} at epsilon 1, 108 "
        f"with them {pair['all']['1'][0]:.1f}; at epsilon 5 {pair['few']['5'][0]:.1f} and {pair['all']['5'][0]:.1f}"
    )
    paper = "Bao et al., Table XVI: one-hot codes pay from epsilon 0.05 on"
    return _entry("features", "bao/table16", ours, paper, differs=True)


def free_features() -> Evidence:
    scores = {
        name: _cell("prior", "ours/prior/heads", data=name, scatter=1.0, steps=100, epsilon=1.0).result["score"]
        for name in ("mnist", "fashion_mnist", "cifar10")
    }
    pixels = _cell("core", "ours/core", data="mnist", epsilon=1.0).result["score"]
    words = ", ".join(f"{name} {_percent(score)}" for name, score in scores.items())
    ours = f"linear on the prior with scattering at epsilon 1: {words}; linear on pixels of mnist {_percent(pixels)}"
    paper = "Tramer and Boneh, Table 1: scattering and a linear head, mnist 98.1 at 1.2, cifar10 67.0 at 3"
    return _entry("prior", "ours/prior/heads", ours, paper)


def pixels() -> Evidence:
    scores = {
        name: mean(
            cell.result["score"] for cell in page("tramer_boneh_cnn").cells(f"tramer_boneh/table13/pixels/{name}")
        )
        for name in ("mnist", "fashion_mnist", "cifar10")
    }
    words = ", ".join(f"{name} {_percent(score)}" for name, score in scores.items())
    ours = f"a CNN on pixels at epsilon 3 as Tramer and Boneh count: {words}"
    paper = "Tramer and Boneh, Table 3: a CNN on pixels at best mnist 98.2, fashion_mnist 86.2, cifar10 59.2"
    return _entry("tramer_boneh_cnn", "tramer_boneh/table13/pixels/mnist", ours, paper)


def public_images() -> Evidence:
    transfer = [
        cell.result["score"]
        for cell in page("features").cells("tramer_boneh/figure5/efficientnet")
        if cell.settings["epsilon"] == 1.0
    ]
    prior = _cell("prior", "ours/prior/heads", data="cifar10", scatter=1.0, steps=100, epsilon=1.0).result["score"]
    ours = (
        f"cifar10 at epsilon 1: {mean(transfer):.1f} on features of a network trained on public photographs, "
        f"{_percent(prior)} on our prior, which saw no image of anyone"
    )
    paper = "DPMLBench, 5.7: public data help on complex data sets"
    return _entry("features", "tramer_boneh/figure5/efficientnet", ours, paper)


def searches() -> Evidence:
    """What a search costs beside one model."""
    prices = {name: _cell("search", "bao/table8/prices", search=name, budget="paper").result for name in ("rs", "paas")}
    scores = {
        name: mean(
            cell.result["accuracy"]
            for cell in page("search").cells("bao/table8")
            if cell.settings["search"] == name and cell.settings["budget"] == "paper"
        )
        for name in prices
    }
    ours = "MNIST, one model at epsilon {:.2f}: ".format(prices["rs"]["model_pld"]) + "; ".join(
        f"{name} costs {price['total']:.1f} in all and found {scores[name]:.1f}" for name, price in prices.items()
    )
    paper = "Bao et al., Table VIII: rs 3.51 in all, paas 22.3 (neither follows from their formulas)"
    ratio = prices["rs"]["total"] / prices["rs"]["model_pld"]
    return {**_entry("search", "bao/table8/prices", ours, paper, differs=True), "ratio": round(ratio, 2)}


@cache
def _dpmlbench() -> Means:
    """The means of all stored cells of DPMLBench."""
    return Means.of(cell for item in page("dpmlbench").items() for cell in page("dpmlbench").cells(item))


def _accuracy(learner: str, network: str, data: str, epsilon: float) -> float:
    value = _dpmlbench().get(learner, network, data, epsilon)
    assert value is not None, f"no stored cell of {learner} with {network} on {data} at {epsilon:g}"
    return value


def labels() -> Evidence:
    """Label privacy and row privacy: accuracy and leakage."""
    useful, leaking = labels_useful(_dpmlbench()), LEAKAGE["labels"](_dpmlbench())
    assert useful is not None
    assert leaking is not None
    label, row = (
        _cell("core", "ours/core", data="adult", epsilon=1.0, learner=name).result["score"]
        for name in ("alibi", "linear")
    )
    ours = (
        f"images: label privacy was more accurate than DP-SGD for whole rows {useful[1]}, and {leaking[1]}; Adult at "
        f"epsilon 1: alibi, for labels only, {_percent(label)}, linear, for whole rows, {_percent(row)}"
    )
    paper = "DPMLBench, Figure 8: label privacy costs less accuracy and defends less"
    return _entry("dpmlbench", "dpmlbench/figure8/alibi", ours, paper, differs=not useful[0])


def selu() -> Evidence:
    """Activations and pooling of the hand-made CNN of DPNAS."""

    def score(item: str, **settings: Any) -> float:
        cells = page("dpnas").cells(item)
        chosen = [cell for cell in cells if settings.items() <= cell.settings.items()]
        return mean(cell.result["score"] for cell in chosen)

    scores = {name: score("dpnas/table4", activation=name) for name in ("relu", "selu")}
    average = score("dpnas/table4", pooling="average")
    tanh = score("dpnas/table1/cifar10", network="cnn")
    ours = (
        f"CIFAR-10 at epsilon 3, a CNN with max pooling: ReLU {_percent(scores['relu'])}, tanh {_percent(tanh)}, SELU "
        f"{_percent(scores['selu'])}; tanh with average pooling {_percent(average)}"
    )
    paper = "DPNAS, Table 4 and Figure 5: SELU 60.16, tanh 59.21, ReLU 51.02; its searches prefer SELU and max pooling"
    return _entry("dpnas", "dpnas/table4", ours, paper)


def low_rank() -> Evidence:
    """Training with low-rank gradients against DP-SGD."""
    words = "; ".join(
        f"{data} at epsilon {epsilon:g} {_accuracy('rgp', 'simple_cnn', data, epsilon):.1f} and "
        f"{_accuracy('dpsgd', 'simple_cnn', data, epsilon):.1f}"
        for data in ("cifar10", "svhn")
        for epsilon in (1.0, 4.0)
    )
    paper = "DPMLBench, 5.7: reducing dimensions helps large networks at small epsilons"
    return _entry("dpmlbench", "dpmlbench/table3/cifar10/rgp", f"a small CNN by rgp and by dpsgd: {words}", paper)


def ensembles() -> Evidence:
    """The leakage and the accuracy of networks that never see a private row."""
    verdict = LEAKAGE["no_access"](_dpmlbench())
    assert verdict is not None
    pate, sgd = (_accuracy(name, "simple_cnn", "fashion_mnist", 4.0) for name in ("pate", "dpsgd"))
    ours = (
        f"models that never see a private row (such as pate): {verdict[1]}, where 0.5 is no leakage; Fashion-MNIST at "
        f"epsilon 4: pate {pate:.1f}, dpsgd {sgd:.1f}"
    )
    paper = "DPMLBench, 5.7: ensembles of models defend best"
    return _entry("dpmlbench", "dpmlbench/table9/fashion_mnist/pate", ours, paper)


def group_norm() -> Evidence:
    verdict = group_norm_verdict(_dpmlbench())
    assert verdict is not None
    with_norm, without = (_accuracy("dpsgd", name, "cifar10", 4.0) for name in ("relu with group norm", "relu"))
    ours = (
        f"CIFAR-10, a small CNN with ReLU at epsilon 4: {with_norm:.1f} with group normalisation, {without:.1f} "
        f"without; the paper's finding holds {verdict[1]}"
    )
    paper = "DPMLBench, Figure 4: group normalisation helps ReLU at every epsilon, and tanh up to epsilon 10 only"
    return _entry("dpmlbench", "dpmlbench/figure4", ours, paper)


def batch_size() -> Evidence:
    """The best score of each batch size in the grid of Tramer and Boneh."""
    best: dict[int, float] = {}
    for cell in page("tramer_boneh_scatter").cells("tramer_boneh/table3/pixels/cifar10"):
        batch = cell.settings["batch"]
        best[batch] = max(best.get(batch, 0.0), cell.result["score"])
    ours = (
        f"CIFAR-10, a CNN at epsilon 3: the best scores for batches of {min(best):,} to {max(best):,} rows, each with "
        f"its own learning rate, are {_percent(min(best.values()))} to {_percent(max(best.values()))}"
    )
    paper = "Tramer and Boneh, section 4: batch sizes hardly differ if the learning rate grows with the batch"
    return _entry("tramer_boneh_scatter", "tramer_boneh/table3/pixels/cifar10", ours, paper)


def smaller_networks() -> Evidence:
    """The gap between the smaller and the larger network of Table I, for each kind of network."""
    gaps = {}
    for kind, names in (("fcn", ("mnist", "fashion_mnist", "svhn", "cifar10")), ("cnn", ("mnist", "svhn", "cifar10"))):
        words = (_cell("studies", f"bao/table1/{kind}/{name}").result["words"][0] for name in names)
        shown = (each.split("PAW over STW: ")[1].split(" points")[0] for each in words)
        gaps[kind] = ", ".join(f"{name} {gap}" for name, gap in zip(names, shown, strict=True))
    ours = f"points gained by the smaller network: fully connected {gaps['fcn']}; convolutional {gaps['cnn']}"
    paper = "Bao et al., Table I: the smaller network is better, fully connected or convolutional"
    return _entry("studies", "bao/table1/fcn/mnist", ours, paper, differs=True)


def text() -> Evidence:
    rows = _rows("studies", "bao/table13")
    linear = _cell("core", "ours/core", data="sms_spam", epsilon=1.0).result["score"]
    ours = (
        f"SMS spam: linear on hashed words {_percent(linear)} at epsilon 1; at 7.21 the larger recurrent network "
        f"{rows['complex (STW)'][0]}, the smaller {rows['simple (PAW)'][0]}"
    )
    simple, large = (_published("bao/table13", f"{name}").split(" /")[0] for name in ("simple (PAW)", "complex (STW)"))
    return _entry(
        "studies", "bao/table13", ours, f"Bao et al., Table XIII: smaller {simple}, larger {large}", differs=True
    )


def tables() -> Evidence:
    cells = [_cell("core", "ours/core", data="adult", epsilon=epsilon, learner="linear") for epsilon in (0.1, 1.0)]
    cells.append(_cell("core", "ours/core", data="wisconsin", epsilon=1.0))
    words = ", ".join(
        f"{cell.settings['data']} {_percent(cell.result['score'])} at epsilon {cell.settings['epsilon']:g} "
        f"(a constant {_percent(cell.result['constant'])})"
        for cell in cells
    )
    paper = f"Bao et al., Table XVI: Adult {_published('bao/table16', '0.1')[1]} at 0.1 by objective perturbation"
    return _entry("core", "ours/core", f"linear with declared bounds: {words}", paper)


def regression() -> Evidence:
    rows = _rows("studies", "bao/tables14_15")
    linear = _cell("core", "ours/core", data="medical_cost", epsilon=1.0).result["score"]
    ours = (
        f"medical_cost: linear R2 {linear:.2f} at epsilon 1; mean absolute error at 0.95 of two layers of 120 units "
        f"{rows['2'][3]}, of twelve {rows['12'][3]}"
    )
    return _entry(
        "studies", "bao/tables14_15", ours, "Bao et al., Table XIV: two layers of 120 units 0.151, twelve 0.721"
    )


def few_rows() -> Evidence:
    breast = _cell("core", "ours/core", data="breast_cancer", epsilon=1.0, learner="linear").result
    places = _cell("core", "ours/core", data="location30").result
    ours = (
        f"at epsilon 1 linear against a constant: breast_cancer (191 rows, 2 classes) {_percent(breast['score'])} and "
        f"{_percent(breast['constant'])}, location30 (4,008 rows, 30 classes) {_percent(places['score'])} and "
        f"{_percent(places['constant'])}"
    )
    return _entry("core", "ours/core", ours)


def activation() -> Evidence:
    """tanh against ReLU, cell by cell as far as DPMLBench was redone."""
    cells = [
        cell
        for item in ("dpmlbench/table3/cifar10/dp-sgd", "dpmlbench/table3/cifar10/tanhact")
        for cell in page("dpmlbench").cells(item)
        if cell.settings["network"] == "simple_cnn"
    ]
    errors = {
        (name, epsilon): mean(
            cell.result["error"]
            for cell in cells
            if (cell.settings["learner"], cell.settings["epsilon"]) == (name, epsilon)
        )
        for name in ("dpsgd", "tanh")
        for epsilon in (1.0, 4.0)
    }
    ours = "CIFAR-10, small CNN, error rates: " + "; ".join(
        f"epsilon {e:g} ReLU {errors['dpsgd', e]:.1f}, tanh {errors['tanh', e]:.1f}" for e in (1.0, 4.0)
    )
    paper = "DPMLBench, 5.7: tanh or group norm lowers the loss of utility, both together do not"
    return _entry("dpmlbench", "dpmlbench/table3/cifar10/tanhact", ours, paper)


def membership() -> Evidence:
    """Attacks on models without privacy and with it, as far as they were run."""
    cells = json.loads((page("studies").results / "attacks" / "cells.json").read_text())
    plain = max(value["auc"] for name, value in cells.items() if " plain, " in name and "auc" in value)
    ours = f"the strongest attack here on a CIFAR-10 network without privacy has an AUC of {plain:.2f}"
    paper = "DPMLBench, 5.7: every algorithm with differential privacy defends well, at any epsilon"
    return {
        "ours": ours,
        "paper": paper,
        "differs": False,
        "page": "docs/results/attacks.md",
        "command": "privaware audit MODEL",
    }


PIECES = (
    *(activation, batch_size, charged_columns, columns, components, crossovers, depth, ensembles, few_rows),
    *(free_features, frozen_layers, group_norm, labels, logistic, low_rank, membership, one_hot, pixels),
    *(public_images, regression, searches, selu, smaller_networks, step_size, tables, text),
)


def evidence() -> dict[str, Evidence]:
    """Every piece of evidence by its name."""
    return {piece.__name__: piece() for piece in PIECES}
