"""Whole models of ``overt.models`` as modules."""

from __future__ import annotations

from functools import partial
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from overt import layers
from overt.attended import Attended
from overt.layers.attentions import padding_mask
from overt.models import Recurrent, Transformer
from overt.models.recurrent import Step, joined, recorded
from overt.torch.attention import attention
from overt.torch.modules.attentions import AdditiveAttention
from overt.torch.modules.layer import Device, Layer, Linear, named, run
from overt.torch.modules.positions import SinusoidalPositions
from overt.torch.modules.transformers import DecoderLayer, EncoderLayer


class EncoderDecoder(Layer):
    """A whole model of ``overt.models``, a Transformer or an attention RNN.

    source (B, S), lengths (B,), target (B, T) → scores of each next token (B, T, V).  With ``attended=True`` it gives
    the scores and, as ``model.attentions`` does, lists of ``Attended`` by name: "encoder", "decoder", "cross".

    The parameters of its checkpoint load; ``checkpoint_parameters()`` gives them back under their names.
    """

    def __init__(
        self,
        model: Transformer | Recurrent,
        *,
        dropout: float = 0.0,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        width = model.width
        embeddings = {"source_embedding": (model.source_size, width), "target_embedding": (model.target_size, width)}
        super().__init__(dropout, embeddings, device=device, dtype=dtype)
        self.model = model
        self.encoder: Any
        self.decoder: Any
        if isinstance(model, Transformer):
            sizes = width, model.heads, model.inner
            encoder, decoder = (
                partial(kind, *sizes, dropout=dropout, device=device, dtype=dtype)
                for kind in (EncoderLayer, DecoderLayer)
            )
            self.positions = SinusoidalPositions()
            self.encoder = nn.ModuleList(encoder() for _ in range(model.encoder_layers))
            self.decoder = nn.ModuleList(decoder() for _ in range(model.decoder_layers))
        else:
            D, linear = model.state, partial(Linear, device=device, dtype=dtype)

            def gates(width: int) -> nn.ModuleDict:
                return nn.ModuleDict({"input": linear(width, 3 * D), "state": linear(D, 3 * D)})

            self.encoder = nn.ModuleDict({"forwards": gates(width), "backwards": gates(width)})
            self.decoder = gates(width + 2 * D)
            self.attention = _AdditiveWeights(D, 2 * D, model.inner, device=device, dtype=dtype)
            self.start, self.readout = linear(D, D), linear(3 * D + width, width)

    def forward(
        self, source: Tensor, lengths: Tensor, target: Tensor, *, attended: bool = False
    ) -> Tensor | tuple[Tensor, dict[str, list[Attended]]]:
        forward = self._transformer if isinstance(self.model, Transformer) else self._recurrent
        scores, seen = forward(source, lengths, target, attended)
        return (scores, seen) if attended else scores

    def checkpoint_parameters(self) -> dict[str, Tensor]:
        """The parameters under the names of a checkpoint, as ``overt.layers.nested`` and ``Checkpoint`` take them."""
        return {name: named(self, name) for name in self.model.shapes()}

    def _transformer(
        self, source: Tensor, lengths: Tensor, target: Tensor, attended: bool
    ) -> tuple[Tensor, dict[str, list[Attended]]]:
        seen: dict[str, list[Attended]] = {"encoder": [], "decoder": [], "cross": []}
        mask = padding_mask(lengths, source.shape[1])
        x, y = (
            self.drop(self.positions(layers.embedding(table, tokens) * sqrt(self.model.width)))
            for table, tokens in ((self.source_embedding, source), (self.target_embedding, target))
        )
        for layer in self.encoder:
            x, found = run(layer, x, mask=mask, attended=attended)
            seen["encoder"] += found
        for layer in self.decoder:
            y, found = run(layer, y, x, context_mask=mask, attended=attended)
            seen["decoder"] += found[:1]
            seen["cross"] += found[1:]
        return layers.unembedding(y, self.target_embedding), seen

    def _recurrent(
        self, source: Tensor, lengths: Tensor, target: Tensor, attended: bool
    ) -> tuple[Tensor, dict[str, list[Attended]]]:
        steps: list[Step] = []
        scores = self.model.logits(
            {**self.tensors, **self._modules, "attention": self.attention()},
            source,
            lengths,
            target,
            drop=self.drop,
            cross_attention=recorded(steps, attention) if attended else attention,
        )
        return scores, {"cross": [joined(steps)]} if attended else {}


class _AdditiveWeights(AdditiveAttention):
    """The weights of additive attention, which a model that attends step by step calls for, hooks and all."""

    def forward(self) -> dict[str, Tensor]:  # type: ignore[override]  # it only gives
        return self.tensors
