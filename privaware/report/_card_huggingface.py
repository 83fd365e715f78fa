"""A model card for the Hugging Face Hub: Markdown below YAML metadata."""

from __future__ import annotations

from typing import Any

from privaware.card import ModelCard
from privaware.report import _words
from privaware.report._bought_score import bought_score
from privaware.report._card_facts import (
    architecture_name,
    attacker,
    composition,
    mechanisms,
    model_name,
    neighbours,
    paid_choices,
    plain,
    stated,
    task,
    unprotected,
)
from privaware.report._limits import limitations
from privaware.report._sentences import data_name, guarantee_words, is_public_benchmark
from privaware.report._yaml import yaml


def huggingface_metadata(card: ModelCard) -> dict[str, Any]:
    """Return the metadata at the top of README.md.

    `metrics` and `model-index` hold the charged score and are absent without one; `license` is absent if the owner
    stated none.
    """
    metadata: dict[str, Any] = {
        "library_name": "privaware",
        "pipeline_tag": task(card),
        "tags": ["differential-privacy", "privaware", card.learner, task(card)],
    }
    licence = stated(card, "licence", "")
    if licence:
        metadata["license"] = licence.lower()
    score = bought_score(card)
    if score is not None:
        metadata["metrics"] = [score.metric]
        measured = {"type": score.metric, "value": score.value, "name": f"{score.name}, held out, released with noise"}
        metadata["model-index"] = [
            {
                "name": model_name(card),
                "results": [{"task": {"type": task(card)}, "dataset": _dataset(card), "metrics": [measured]}],
            }
        ]
    return metadata


def huggingface_markdown(card: ModelCard) -> str:
    """Return the file README.md of a model repository, with the metadata at its top."""
    guarantee = card.guarantee
    sections = {
        "Model details": [
            f"- **Learner:** {plain(card.learner)}",
            f"- **Architecture:** {plain(architecture_name(card))}",
            f"- **Predicts:** {plain(card.schema.target)}",
            f"- **Trained on:** {plain(data_name(card) or 'rows that are not named')}",
            f"- **Developed by:** {plain(stated(card, 'owner'))}",
            f"- **Contact:** {plain(stated(card, 'contact'))}",
            f"- **Made:** {plain(card.created)} by privaware {plain(card.version)}",
        ],
        "Uses": [
            f"- **Intended:** {plain(stated(card, 'intended_use'))}",
            f"- **By:** {plain(stated(card, 'intended_users'))}",
            f"- **Out of scope:** {plain(stated(card, 'not_intended_for'))}",
        ],
        "Privacy guarantee": [
            plain(guarantee_words(card)),
            "",
            plain(attacker(card)),
            "",
            "| epsilon | delta | unit | relation | certified |",
            "|---|---|---|---|---|",
            f"| {_words.rounded_up(guarantee.epsilon)} | {_words.rounded_up(guarantee.delta)} "
            f"| {plain(guarantee.unit)} | {plain(guarantee.relation)} | {'yes' if guarantee.certified else 'no'} |",
            "",
            plain(neighbours(card)),
            "",
            plain(composition(card)),
            "",
            f"Assumed: {plain(unprotected(card))}",
        ],
        "Training": [f"- {plain(line)}" for line in mechanisms(card)] + ["", plain(paid_choices(card))],
        "Evaluation": [_evaluation(card)],
        "Bias, risks and limitations": [f"- {plain(line)}" for line in limitations(card)],
        "How to get started": ["```python", "from privaware import load", "", 'load("FOLDER").predict(frame)', "```"],
        "How to verify": ["```", "privaware verify FOLDER", "```"],
    }
    body = "\n".join(f"## {name}\n\n" + "\n".join(lines) + "\n" for name, lines in sections.items())
    return f"---\n{yaml(huggingface_metadata(card))}---\n\n# {plain(model_name(card))}\n\n{body}"


def _dataset(card: ModelCard) -> dict[str, str]:
    if is_public_benchmark(card):
        return {"type": "public", "name": stated(card, "data", data_name(card))}
    return {"type": "private", "name": stated(card, "data", "private rows, not published")}


def _evaluation(card: ModelCard) -> str:
    score = bought_score(card)
    if score is None:
        return "No score was released, so none is published."
    return (
        f"{score.name} {_words.number(score.value, 4)} (95% interval {_words.number(score.low, 4)} to "
        f"{_words.number(score.high, 4)}) on held-out rows, released with noise for epsilon "
        f"{_words.rounded_up(score.epsilon)}, which is part of the epsilon above. {score.constant_sentence}".rstrip()
    )
