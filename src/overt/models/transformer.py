"""The encoder–decoder Transformer: Algorithm 8 of Phuong & Hutter 2022, with the positions of Vaswani et al. 2017."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import sqrt
from typing import Any

import numpy as np

from overt import layers, positions
from overt.attended import Attended
from overt.attention import attention as overt_attention
from overt.errors import ArgumentError
from overt.grid import Array, host
from overt.layers import Attention, Pair, Parameters, keep
from overt.layers.attentions import padding_mask
from overt.layers.namespace import array_namespace
from overt.masks import Mask
from overt.models.initial import Shapes, attention_shapes, check_sizes, feed_forward_shapes


@dataclass(frozen=True)
class State:
    """Where decoding stands: per layer the keys and values of the encoder and of the target so far.

    As many rows of the target as there are ``beams`` look at the context of one source, one after another.
    """

    context: tuple[Pair, ...]
    past: tuple[Pair, ...]
    lengths: np.ndarray
    position: int
    beams: int = 1

    def select(self, rows: np.ndarray) -> State:
        """The same for some rows of the batch, in any order and number."""

        def picked(pairs: tuple[Pair, ...], rows: np.ndarray) -> tuple[Pair, ...]:
            same = pairs and np.array_equal(rows, np.arange(len(pairs[0][0])))
            return pairs if same else tuple((k[rows], v[rows]) for k, v in pairs)

        sources = rows // self.beams
        first = np.flatnonzero(np.diff(sources, prepend=-1))
        beams = max(1, len(rows) // max(1, len(first)))
        if not np.array_equal(first, np.arange(0, len(rows), beams)):
            first, beams = np.arange(len(rows)), 1
        kept = sources[first]
        return State(picked(self.context, kept), picked(self.past, rows), self.lengths[kept], self.position, beams)


@dataclass(frozen=True)
class Transformer:
    """Sizes of a Transformer; the methods are pure functions of its parameters."""

    source_size: int
    target_size: int
    width: int = 256
    heads: int = 4
    inner: int = 512
    encoder_layers: int = 3
    decoder_layers: int = 3
    # The decoder layer, as Python counts, whose first head of cross-attention is the alignment.
    alignment_layer: int = -1

    def __post_init__(self) -> None:
        sizes = asdict(self)
        if not isinstance(layer := sizes.pop("alignment_layer"), int):
            raise ArgumentError(f"alignment_layer must be a whole number, not {layer!r:.40}")
        check_sizes(**sizes)
        if self.width % self.heads:
            raise ArgumentError(f"a width of {self.width} does not split into {self.heads} heads")
        if not -self.decoder_layers <= self.alignment_layer < self.decoder_layers:
            raise ArgumentError(f"layer {self.alignment_layer} is none of {self.decoder_layers} decoder layers")

    def shapes(self) -> Shapes:
        """The shape of each parameter, by its flat name."""
        D, F = self.width, self.inner
        found: Shapes = {"source_embedding": (self.source_size, D), "target_embedding": (self.target_size, D)}
        for side, count, attentions in (
            ("encoder", self.encoder_layers, ("attention",)),
            ("decoder", self.decoder_layers, ("attention", "cross")),
        ):
            for i in range(count):
                for part in attentions:
                    found |= attention_shapes(f"{side}.{i}.{part}", D)
                found |= feed_forward_shapes(f"{side}.{i}.feed_forward", D, F)
        return found

    def logits(
        self,
        parameters: Parameters,
        source: Array,
        lengths: Array,
        target: Array,
        *,
        drop: Callable[[Array], Array] = keep,
        attention: Attention = overt_attention,
        cross_attention: Attention = overt_attention,
    ) -> Array:
        """Scores of each next token: source (B, S), lengths (B,), target (B, T) → (B, T, V)."""
        start = self.start(parameters, source, lengths, drop=drop, attention=attention)
        return self.advance(parameters, start, target, drop=drop, attention=attention, cross_attention=cross_attention)[
            0
        ]

    def start(
        self,
        parameters: Parameters,
        source: Array,
        lengths: Array,
        *,
        drop: Callable[[Array], Array] = keep,
        attention: Attention = overt_attention,
    ) -> State:
        """Encode source (B, S), whose rows are as long as ``lengths`` (B,) says."""
        x, mask = drop(self._embed(parameters["source_embedding"], source, 0)), _padding(lengths, source.shape[1])
        for layer in parameters["encoder"]:
            x = layers.encoder_layer(x, layer, heads=self.heads, mask=mask, drop=drop, attention=attention)
        context = tuple(layers.keys_and_values(x, layer["cross"], heads=self.heads) for layer in parameters["decoder"])
        return State(context, (), lengths, 0)

    def advance(
        self,
        parameters: Parameters,
        state: State,
        target: Array,
        *,
        drop: Callable[[Array], Array] = keep,
        attention: Attention = overt_attention,
        cross_attention: Attention = overt_attention,
    ) -> tuple[Array, State]:
        """Read more of the target, (B, T): the scores after each of these tokens (B, T, V), and the new state."""
        x = drop(self._embed(parameters["target_embedding"], target, state.position))
        mask, past = _padding(state.lengths, state.context[0][0].shape[-2]), []
        if state.beams > 1:
            cross_attention = _shared(cross_attention, state.beams)
        for i, layer in enumerate(parameters["decoder"]):
            x, pair = layers.decoder_layer(
                x,
                state.context[i],
                layer,
                heads=self.heads,
                past=state.past[i] if state.past else None,
                context_mask=mask,
                drop=drop,
                attention=attention,
                cross_attention=cross_attention,
            )
            past.append(pair)
        new = replace(state, past=tuple(past), position=state.position + target.shape[1])
        return layers.unembedding(x, parameters["target_embedding"]), new

    def alignment(self, parameters: Parameters, source: Array, lengths: Array, target: Array) -> np.ndarray:
        """Where each step looked: one head of cross-attention, which training may guide, (B, T, S)."""
        found: list[Attended] = []
        self.logits(parameters, source, lengths, target, cross_attention=layers.watched(found))
        return host("weights", found[self.alignment_layer].weights[:, 0])

    def attentions(
        self, parameters: Parameters, source: Array, lengths: Array, target: Array
    ) -> dict[str, list[Attended]]:
        """Every attention of one pass, (B, H, T, S), layer by layer, by its name: "encoder", "decoder", "cross"."""
        found: dict[str, list[Attended]] = {"encoder": [], "decoder": [], "cross": []}
        watched = {name: layers.watched(several) for name, several in found.items()}
        state = self.start(parameters, source, lengths, attention=watched["encoder"])
        self.advance(parameters, state, target, attention=watched["decoder"], cross_attention=watched["cross"])
        return found

    def _embed(self, table: Array, tokens: Array, first: int) -> Array:
        xp: Any = array_namespace(table)
        encodings = positions.sinusoidal(np.arange(first, first + tokens.shape[1]), self.width)
        return layers.embedding(table, tokens) * sqrt(self.width) + xp.asarray(
            encodings, dtype=table.dtype, device=table.device
        )


def _padding(lengths: Array, S: int) -> Mask | Array | None:
    """What hides the ends of shorter sources, if there are any: without a mask attention is faster."""
    return padding_mask(lengths, S) if (lengths < S).any() else None


def _shared(attention: Attention, beams: int) -> Attention:
    """Attention of several rows to one context as that of one row with the queries of all of them.

    q (n·beams, H, T, D), k and v (n, H, S, D) → (n·beams, H, T, D).
    """

    def shared(q: Array, k: Array, v: Array, **options: Any) -> Array:
        xp = array_namespace(q)
        _, H, T, D = q.shape
        together = xp.moveaxis(xp.reshape(q, (-1, beams, H, T, D)), 1, 2)
        y = attention(xp.reshape(together, (-1, H, beams * T, D)), k, v, **options)
        return xp.reshape(xp.moveaxis(xp.reshape(y, (-1, H, beams, T, D)), 2, 1), q.shape)

    return shared
