"""BERT encoder, moved from our PyTorch code to Flax for the TPU batch scorer.

The public interface stayed the same: attention_mask is 1 for tokens and 0 for padding,
and is turned into an additive bias once (0 = token, very negative = padding).
"""
from typing import Any, Dict, Optional

import flax.linen as nn
import jax
import jax.numpy as jnp


def extended_mask(attention_mask, dtype=jnp.float32):
    """[B, L] of 1/0 -> additive bias [B, 1, 1, L]"""
    return (1.0 - attention_mask[:, None, None, :].astype(dtype)) * jnp.finfo(dtype).min


class BertEmbeddings(nn.Module):
    vocab: int
    hidden: int
    max_len: int

    @nn.compact
    def __call__(self, ids, types):
        pos = jnp.arange(ids.shape[1])[None]
        x = nn.Embed(self.vocab, self.hidden, name="word")(ids)
        x = x + nn.Embed(self.max_len, self.hidden, name="position")(pos)
        x = x + nn.Embed(2, self.hidden, name="type")(types)
        return nn.LayerNorm(epsilon=1e-12, name="norm")(x)


class BertSelfAttention(nn.Module):
    hidden: int
    heads: int
    dropout: float = 0.1

    @nn.compact
    def __call__(self, x, bias: Optional[jnp.ndarray] = None, train: bool = False):
        """bias: additive, as made by extended_mask"""
        b, l, _ = x.shape
        d = self.hidden // self.heads

        def heads(name):
            return nn.Dense(self.hidden, name=name)(x).reshape(b, l, self.heads, d).transpose(0, 2, 1, 3)

        q, k, v = heads("query"), heads("key"), heads("value")
        scores = jnp.matmul(q, k.swapaxes(-1, -2)) / jnp.sqrt(d)
        if bias is not None:
            scores = jnp.where(bias.astype(bool), scores, jnp.finfo(scores.dtype).min)
        probs = jax.nn.softmax(scores, axis=-1)
        probs = nn.Dropout(self.dropout)(probs, deterministic=not train)
        y = jnp.matmul(probs, v).transpose(0, 2, 1, 3).reshape(b, l, self.hidden)
        return nn.Dense(self.hidden, name="output")(y)


class BertLayer(nn.Module):
    hidden: int
    heads: int
    inner: int
    dropout: float = 0.1

    @nn.compact
    def __call__(self, x, bias=None, train=False):
        drop = nn.Dropout(self.dropout, deterministic=not train)
        a = BertSelfAttention(self.hidden, self.heads, self.dropout, name="attention")(x, bias, train)
        x = nn.LayerNorm(epsilon=1e-12, name="norm1")(x + drop(a))
        h = nn.gelu(nn.Dense(self.inner, name="up")(x), approximate=False)
        return nn.LayerNorm(epsilon=1e-12, name="norm2")(x + drop(nn.Dense(self.hidden, name="down")(h)))


class BertScorer(nn.Module):
    vocab: int = 200
    hidden: int = 32
    heads: int = 4
    inner: int = 64
    layers: int = 2
    max_len: int = 128
    labels: int = 3

    @nn.compact
    def __call__(self, ids, attention_mask, types=None, train=False):
        types = jnp.zeros_like(ids) if types is None else types
        x = BertEmbeddings(self.vocab, self.hidden, self.max_len, name="embeddings")(ids, types)
        bias = extended_mask(attention_mask, x.dtype)
        for i in range(self.layers):
            x = BertLayer(self.hidden, self.heads, self.inner, name=f"layer_{i}")(x, bias, train)
        pooled = jnp.tanh(nn.Dense(self.hidden, name="pooler")(x[:, 0]))
        return nn.Dense(self.labels, name="classifier")(pooled)


_RENAME = {"attention.self.query": "attention/query", "attention.self.key": "attention/key",
           "attention.self.value": "attention/value", "attention.output.dense": "attention/output",
           "attention.output.LayerNorm": "norm1", "intermediate.dense": "up",
           "output.dense": "down", "output.LayerNorm": "norm2"}


def convert_layer(state: Dict[str, Any], i: int) -> Dict[str, Any]:
    """One layer of a torch state dict -> Flax params (Linear weights are transposed)."""
    tree: Dict[str, Any] = {}
    for old, new in _RENAME.items():
        node = tree
        for part in new.split("/"):
            node = node.setdefault(part, {})
        w = jnp.asarray(state[f"encoder.layer.{i}.{old}.weight"])
        node["scale" if "LayerNorm" in old else "kernel"] = w if w.ndim == 1 else w.T
        node["bias"] = jnp.asarray(state[f"encoder.layer.{i}.{old}.bias"])
    return tree
