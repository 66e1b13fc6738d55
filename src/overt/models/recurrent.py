"""The attention RNN of Bahdanau et al. 2015 (arXiv:1409.0473): encoded from both sides, decoded looking back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any

import numpy as np

from overt import layers
from overt.attended import Attended
from overt.attention import attend
from overt.attention import attention as overt_attention
from overt.errors import ArgumentError
from overt.grid import Array, host
from overt.layers import Attention, Parameters, keep
from overt.layers.attentions import padding_mask
from overt.layers.dense import project
from overt.layers.namespace import array_namespace, unstack
from overt.models.initial import Shapes, check_sizes, dense

Step = tuple[Array, Array, Array, dict[str, Any]]
"""q, k, v and the options of one call of attention."""


@dataclass(frozen=True)
class State:
    """Where decoding stands.

    annotations (B, S, 2D) of the source and the keys (B, S, A) made of them, its lengths (B,), and the decoder's
    hidden state (B, D).
    """

    annotations: Array
    keys: Array
    lengths: Array
    hidden: Array

    def select(self, rows: np.ndarray) -> State:
        """The same for some rows of the batch, in any order and number."""
        return State(self.annotations[rows], self.keys[rows], self.lengths[rows], self.hidden[rows])


@dataclass(frozen=True)
class Recurrent:
    """Sizes of an attention RNN; the methods are pure functions of its parameters.

    ``width`` is that of embeddings, ``state`` that of each direction and of the decoder, ``inner`` the A of the score.
    Without ``attentive`` every step gets the mean of the annotations instead of what it looks for.
    """

    source_size: int
    target_size: int
    width: int = 128
    state: int = 256
    inner: int = 128
    attentive: bool = True

    def __post_init__(self) -> None:
        sizes = asdict(self)
        if not isinstance(attentive := sizes.pop("attentive"), bool):
            raise ArgumentError(f"attentive must be true or false, not {attentive!r:.40}")
        check_sizes(**sizes)

    def shapes(self) -> Shapes:
        """The shape of each parameter, by its flat name."""
        X, D, A = self.width, self.state, self.inner
        found: Shapes = {"source_embedding": (self.source_size, X), "target_embedding": (self.target_size, X)}
        for name, width in (("encoder.forwards", X), ("encoder.backwards", X), ("decoder", X + 2 * D)):
            found |= dense(f"{name}.input", 3 * D, width) | dense(f"{name}.state", 3 * D, D)
        found |= {
            "attention.query_weight": (A, D),
            "attention.key_weight": (A, 2 * D),
            "attention.score_weight": (A,),
            "attention.bias": (A,),
        }
        return found | dense("start", D, D) | dense("readout", X, 3 * D + X)

    def logits(
        self,
        parameters: Parameters,
        source: Array,
        lengths: Array,
        target: Array,
        *,
        drop: Callable[[Array], Array] = keep,
        cross_attention: Attention = overt_attention,
    ) -> Array:
        """Scores of each next token: source (B, S), lengths (B,), target (B, T) → (B, T, V)."""
        start = self.start(parameters, source, lengths, drop=drop)
        return self.advance(parameters, start, target, drop=drop, cross_attention=cross_attention)[0]

    def start(
        self, parameters: Parameters, source: Array, lengths: Array, *, drop: Callable[[Array], Array] = keep
    ) -> State:
        """Encode source (B, S), whose rows are as long as ``lengths`` (B,) says."""
        xp = array_namespace(source)
        x = drop(layers.embedding(parameters["source_embedding"], source) * sqrt(self.width))
        annotations = drop(layers.bidirectional_gru(x, parameters["encoder"], lengths=lengths))
        backwards = annotations[:, 0, self.state :]
        first = xp.tanh(project(backwards, parameters, "start"))
        keys = layers.additive_keys(annotations, parameters["attention"])
        return State(annotations, keys if self.attentive else xp.zeros_like(keys), lengths, first)

    def advance(
        self,
        parameters: Parameters,
        state: State,
        target: Array,
        *,
        drop: Callable[[Array], Array] = keep,
        cross_attention: Attention = overt_attention,
    ) -> tuple[Array, State]:
        """Read more of the target, (B, T): the scores after each of these tokens (B, T, V), and the new state.

        s_i = f(s_{i−1}, y_{i−1}, c_i) where c_i is what s_{i−1} finds among the annotations: section 3.1.
        """
        xp = array_namespace(target)
        x = drop(layers.embedding(parameters["target_embedding"], target) * sqrt(self.width))
        hidden, mask = state.hidden, padding_mask(state.lengths, state.keys.shape[-2])
        contexts, states = [], []
        for word in unstack(x, 1):
            query = hidden[:, None, :] if self.attentive else xp.zeros_like(hidden)[:, None, :]
            context = layers.mix_additive(
                query,
                state.keys,
                state.annotations,
                parameters["attention"],
                mask=mask,
                attention=cross_attention,
            )[:, 0, :]
            hidden = layers.gru_cell(xp.concat([word, context], axis=-1), hidden, parameters["decoder"])
            contexts.append(context)
            states.append(hidden)
        features = xp.concat([xp.stack(states, axis=1), xp.stack(contexts, axis=1), x], axis=-1)
        readout = drop(xp.tanh(project(features, parameters, "readout")))
        return layers.unembedding(readout, parameters["target_embedding"]), State(
            state.annotations, state.keys, state.lengths, hidden
        )

    def alignment(self, parameters: Parameters, source: Array, lengths: Array, target: Array) -> np.ndarray:
        """Where each step looked: (B, T, S)."""
        return host("weights", self.attentions(parameters, source, lengths, target)["cross"][0].weights[:, 0])

    def attentions(
        self, parameters: Parameters, source: Array, lengths: Array, target: Array
    ) -> dict[str, list[Attended]]:
        """The attention of all steps of one pass, (B, 1, T, S), by its name, "cross"."""
        steps: list[Step] = []
        self.logits(parameters, source, lengths, target, cross_attention=recorded(steps))
        return {"cross": [joined(steps)]}


def recorded(steps: list[Step], attention: Attention = overt_attention) -> Attention:
    """Attention that also appends what each call of it is given to a list."""

    def record(q: Array, k: Array, v: Array, **options: Any) -> Array:
        steps.append((q, k, v, options))
        return attention(q, k, v, **options)

    return record


def joined(steps: list[Step]) -> Attended:
    """The attention of steps that each had one query, (B, 1, 1, S), as one attention of T queries, (B, 1, T, S)."""
    queries = array_namespace(steps[0][0]).concat([q for q, _, _, _ in steps], axis=-2)
    _, k, v, options = steps[0]
    return attend(queries, k, v, **options)
