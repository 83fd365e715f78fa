"""The network behind `sentences`: six layers of the BERT family, which read several texts side by side.

The tokens of the texts are the rows of one matrix. Dense maps and norms treat each row by itself, and attention looks
at the rows of one text only, so no padding is computed inside a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

HEADS = 12
"""Number of attention heads of a layer."""

EPSILON = 1e-12
"""Number that layer norm adds to a variance."""


@dataclass(frozen=True)
class Layer:
    """One transformer layer: self-attention and two dense maps, each added to its input and normalised.

    Each field holds a weight and a bias: `mixed` maps to queries, keys and values, `attended` maps the attention
    output, and `wider` and `narrower` are the two dense maps, with weights (inputs, outputs). `attended_norm` is the
    layer norm after attention, and `narrower_norm` the one after the dense maps.
    """

    mixed: tuple[Tensor, Tensor]
    attended: tuple[Tensor, Tensor]
    attended_norm: tuple[Tensor, Tensor]
    wider: tuple[Tensor, Tensor]
    narrower: tuple[Tensor, Tensor]
    narrower_norm: tuple[Tensor, Tensor]

    def __call__(self, x: Tensor, lengths: list[int]) -> Tensor:
        """Return the output of the layer for `x`, whose rows are tokens, text after text; the shape stays the same.

        `x` has shape (tokens, width). `lengths` are the numbers of tokens of the texts, in their order. Rows of `x`
        beyond the sum of `lengths` are padding; their output has no meaning.
        """
        seen = torch.zeros_like(x)
        parts = _mapped(x, self.mixed)[: sum(lengths)].split(lengths)
        for part, place in zip(parts, seen[: sum(lengths)].split(lengths), strict=True):
            query, key, value = part.view(1, len(part), 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            attended = functional.scaled_dot_product_attention(query, key, value)
            place.view(len(part), HEADS, -1).copy_(attended[0].transpose(0, 1))
        x = _normalised(x + _mapped(seen, self.attended), self.attended_norm)
        wide = functional.gelu(_mapped(x, self.wider))
        return _normalised(x + _mapped(wide, self.narrower), self.narrower_norm)


class MiniLM:
    """The network all-MiniLM-L6-v2 (six layers), built from the tensors of its published weights, by name."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._words = tensors["embeddings.word_embeddings.weight"]
        kind = tensors["embeddings.token_type_embeddings.weight"][0]
        self._places = tensors["embeddings.position_embeddings.weight"] + kind
        self._norm = _pair(tensors, "embeddings.LayerNorm")
        layers = 1 + max(int(name.split(".")[2]) for name in tensors if name.startswith("encoder.layer."))
        self._layers = [_layer(tensors, f"encoder.layer.{at}") for at in range(layers)]

    @torch.inference_mode()
    def __call__(self, texts: Sequence[Sequence[int]], tokens: int = 0) -> Tensor:
        """Return, for each text, the mean output over its tokens, scaled to norm 1.

        Parameters
        ----------
        texts : sequence of sequences of int
            The codes of the tokens of each text; at least one for each text.
        tokens : int
            Number of rows of the matrix of tokens, which is filled up with rows of padding. A number below that of the
            tokens of all texts, such as the default 0, means no padding. With one number for all calls, all products
            have one shape and round alike.

        Returns
        -------
        Tensor
            Rows of shape (texts, outputs).
        """
        lengths = [len(codes) for codes in texts]
        total = sum(lengths)
        words = self._words[torch.tensor([code for codes in texts for code in codes])]
        places = self._places[torch.cat([torch.arange(length) for length in lengths])]
        x = functional.pad(words + places, (0, 0, 0, max(tokens - total, 0)))
        x = _normalised(x, self._norm)
        for layer in self._layers:
            x = layer(x, lengths)
        means = torch.stack([part.mean(0) for part in x[:total].split(lengths)])
        return functional.normalize(means, dim=1)


def _layer(tensors: dict[str, Tensor], at: str) -> Layer:
    parts = [_map(tensors, f"{at}.attention.self.{name}") for name in ("query", "key", "value")]
    return Layer(
        mixed=(torch.cat([weight for weight, _ in parts], 1), torch.cat([bias for _, bias in parts])),
        attended=_map(tensors, f"{at}.attention.output.dense"),
        attended_norm=_pair(tensors, f"{at}.attention.output.LayerNorm"),
        wider=_map(tensors, f"{at}.intermediate.dense"),
        narrower=_map(tensors, f"{at}.output.dense"),
        narrower_norm=_pair(tensors, f"{at}.output.LayerNorm"),
    )


def _pair(tensors: dict[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
    return tensors[f"{name}.weight"], tensors[f"{name}.bias"]


def _map(tensors: dict[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
    """Return the weights called `name` in `tensors`, as (inputs, outputs), and their biases.

    Products of few rows are twice as fast in this layout.
    """
    weight, bias = _pair(tensors, name)
    return weight.T.contiguous(), bias


def _mapped(x: Tensor, dense: tuple[Tensor, Tensor]) -> Tensor:
    weight, bias = dense
    return torch.addmm(bias, x, weight)


def _normalised(x: Tensor, norm: tuple[Tensor, Tensor]) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], *norm, EPSILON)
