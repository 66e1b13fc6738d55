"""Modules that own parameters and call ``overt.layers``; their names in a state dict are those of the layers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from overt import layers, positions
from overt.dropout import dropout as attention_dropout
from overt.errors import ArgumentError
from overt.masks import Mask
from overt.models import Recurrent, Transformer
from overt.models.initial import Shapes, attention_shapes, dense, feed_forward_shapes, initial
from overt.torch.attention import attention


class Layer(nn.Module):
    """Parameters of given names and shapes, drawn with torch's random numbers; a dot in a name makes a part."""

    def __init__(self, shapes: Shapes, dropout: float = 0.0) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ArgumentError(f"dropout must be a rate with 0 ≤ rate < 1, not {dropout!r}")
        self.dropout = dropout
        seed = int(torch.randint(2**62, ()))
        for name, array in initial(shapes, np.random.default_rng(seed)).items():
            *path, leaf = name.split(".")
            node: nn.Module = self
            for part in path:
                if part not in node._modules:
                    node.add_module(part, nn.Module())
                node = node._modules[part]  # type: ignore[assignment]  # added where it was missing
            node.register_parameter(leaf, nn.Parameter(torch.from_numpy(array).to(torch.get_default_dtype())))

    @property
    def tree(self) -> dict[str, Any]:
        """The parameters as ``overt.layers`` takes them."""
        return layers.nested(dict(self.named_parameters()))

    def drop(self, x: Tensor) -> Tensor:
        """Dropout while training."""
        return functional.dropout(x, self.dropout, self.training)

    @property
    def attend(self) -> Callable[..., Tensor]:
        """Attention, with dropout of its weights while training."""
        if not (self.training and self.dropout):
            return attention
        return partial(attention, dropout=attention_dropout(self.dropout, int(torch.randint(2**62, ()))))


class MultiHeadAttention(Layer):
    """Queries x (…, T, width) attend to a context (…, S, context_width) → (…, T, width).  Algorithm 5.

    groups: key heads that the query heads share, by default one each.  The state dict of a
    ``torch.nn.MultiheadAttention`` without ``add_bias_kv`` loads.  That module differs in this: its batch comes second
    unless ``batch_first``, its boolean masks say what is hidden, and a query that sees nothing gives NaN; here the
    batch is first, masks say what is seen, and such a query gives the output bias.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        groups: int | None = None,
        context_width: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        groups = heads if groups is None else groups
        if heads < 1 or width % heads:
            raise ArgumentError(f"a width of {width} does not split into {heads} heads")
        if groups < 1 or heads % groups:
            raise ArgumentError(f"{heads} query heads do not share {groups} key heads")
        rows, context = width // heads * groups, context_width or width
        shapes = dense("query", width, width) | dense("key", rows, context) | dense("value", rows, context)
        shapes |= dense("output", width, width)
        if not bias:
            shapes = {name: shape for name, shape in shapes.items() if name.endswith("_weight")}
        super().__init__(shapes, dropout)
        self.heads = heads

    def forward(self, x: Tensor, context: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
        return layers.multi_head_attention(x, context, self.tree, heads=self.heads, mask=mask, attention=self.attend)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *options: Any) -> None:
        for kind in ("weight", "bias"):
            joined = state_dict.pop(f"{prefix}in_proj_{kind}", None)
            if joined is not None:
                for name, part in zip("qkv", joined.chunk(3), strict=True):
                    state_dict[f"{prefix}{name}_proj_{kind}"] = part
            output = state_dict.pop(f"{prefix}out_proj.{kind}", None)
            if output is not None:
                state_dict[f"{prefix}output_{kind}"] = output
            for name in ("query", "key", "value"):
                part = state_dict.pop(f"{prefix}{name[0]}_proj_{kind}", None)
                if part is not None:
                    state_dict[f"{prefix}{name}_{kind}"] = part
        super()._load_from_state_dict(state_dict, prefix, *options)


class SelfAttention(MultiHeadAttention):
    """Every position of x (…, T, width) attends to all of x."""

    def forward(self, x: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:  # type: ignore[override]  # one input
        return super().forward(x, x, mask=mask)


class CrossAttention(MultiHeadAttention):
    """Every position of x (…, T, width) attends to another sequence (…, S, context_width)."""


class AdditiveAttention(Layer):
    """Bahdanau's attention: queries (…, T, Dq), keys (…, S, Dk), values (…, S, E) → (…, T, E)."""

    def __init__(self, query_width: int, key_width: int, inner: int, *, dropout: float = 0.0) -> None:
        super().__init__(
            {
                "query_weight": (inner, query_width),
                "key_weight": (inner, key_width),
                "score_weight": (inner,),
                "bias": (inner,),
            },
            dropout,
        )

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
        return layers.additive_attention(queries, keys, values, self.tree, mask=mask, attention=self.attend)


class BilinearAttention(Layer):
    """Luong's "general" attention: queries (…, T, Dq), keys (…, S, Dk), values (…, S, E) → (…, T, E)."""

    def __init__(self, query_width: int, key_width: int, *, dropout: float = 0.0) -> None:
        super().__init__({"product_weight": (query_width, key_width)}, dropout)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
        return layers.bilinear_attention(queries, keys, values, self.tree, mask=mask, attention=self.attend)


class SinusoidalPositions(nn.Module):
    """Adds the fixed encoding of Vaswani et al. 2017 to x (…, T, width)."""

    def forward(self, x: Tensor) -> Tensor:
        places = positions.sinusoidal(x.shape[-2], x.shape[-1])
        return x + torch.from_numpy(places).to(x)


class LearnedPositions(Layer):
    """Adds a learned vector for each of at most ``count`` positions to x (…, T, width).  Algorithm 2."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__({"position_embedding": (count, width)})

    def forward(self, x: Tensor) -> Tensor:
        return x + layers.positional_embedding(self.tree["position_embedding"], 0, x.shape[-2])


class EncoderLayer(Layer):
    """Self-attention and feed-forward: x (…, T, width) → (…, T, width).  Algorithm 8, lines 4–8."""

    def __init__(self, width: int, heads: int, inner: int, *, dropout: float = 0.0) -> None:
        super().__init__(
            attention_shapes("attention", width) | feed_forward_shapes("feed_forward", width, inner),
            dropout,
        )
        self.heads = heads

    def forward(self, x: Tensor, *, mask: Mask | Tensor | None = None) -> Tensor:
        return layers.encoder_layer(x, self.tree, heads=self.heads, mask=mask, drop=self.drop, attention=self.attend)


class DecoderLayer(Layer):
    """Causal self-attention, attention to a context (…, S, width), feed-forward.  Algorithm 8, lines 12–18."""

    def __init__(self, width: int, heads: int, inner: int, *, dropout: float = 0.0) -> None:
        super().__init__(
            attention_shapes("attention", width)
            | attention_shapes("cross", width)
            | feed_forward_shapes("feed_forward", width, inner),
            dropout,
        )
        self.heads = heads

    def forward(self, x: Tensor, context: Tensor, *, context_mask: Mask | Tensor | None = None) -> Tensor:
        tree = self.tree
        pair = layers.keys_and_values(context, tree["cross"], heads=self.heads)
        attend = self.attend
        return layers.decoder_layer(
            x,
            pair,
            tree,
            heads=self.heads,
            context_mask=context_mask,
            drop=self.drop,
            attention=attend,
            cross_attention=attend,
        )[0]


class EncoderDecoder(Layer):
    """A whole model of ``overt.models``, a Transformer or an attention RNN, under the names of its checkpoint.

    source (B, S), lengths (B,), target (B, T) → scores of each next token (B, T, V).
    """

    def __init__(self, model: Transformer | Recurrent, *, dropout: float = 0.0) -> None:
        super().__init__(model.shapes(), dropout)
        self.model = model

    def forward(self, source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        options: dict[str, Any] = {"attention": attention} if isinstance(self.model, Transformer) else {}
        return self.model.logits(
            self.tree, source, lengths, target, drop=self.drop, cross_attention=attention, **options
        )
