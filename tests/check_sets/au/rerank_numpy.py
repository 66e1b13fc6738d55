"""Run a MiniLM cross-encoder re-ranker with nothing but numpy.

Weights are a flat dict with the Hugging Face names (weight of a Linear is [out, in]).
"""
import numpy as np


def linear(x, sd, name):
    return x @ sd[name + ".weight"].T + sd[name + ".bias"]


def layer_norm(x, sd, name, eps=1e-12):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * sd[name + ".weight"] + sd[name + ".bias"]


def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def embed(ids, types, sd):
    p = "bert.embeddings."
    e = (sd[p + "word_embeddings.weight"][ids]
         + sd[p + "token_type_embeddings.weight"][types]
         + sd[p + "position_embeddings.weight"][: ids.shape[1]])
    return layer_norm(e, sd, p + "LayerNorm")


def encoder_attention(x, attention_mask, sd, prefix, n_heads):
    """attention_mask: [B, T] of 1 (token) and 0 (padding)."""
    B, T, D = x.shape
    dh = D // n_heads
    q, k, v = (linear(x, sd, f"{prefix}.self.{n}").reshape(B, T, n_heads, dh).swapaxes(1, 2)
               for n in ("query", "key", "value"))
    s = q @ k.swapaxes(-1, -2)
    s /= np.sqrt(dh)
    s = np.where(attention_mask[:, None, None, :] > 0, s, np.finfo(s.dtype).min)
    s -= s.max(axis=-1, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(axis=-1, keepdims=True)
    ctx = (s @ v).swapaxes(1, 2).reshape(B, T, D)
    return linear(ctx, sd, prefix + ".output.dense")


def layer(x, mask, sd, i, n_heads):
    p = f"bert.encoder.layer.{i}"
    a = encoder_attention(x, mask, sd, p + ".attention", n_heads)
    x = layer_norm(x + a, sd, p + ".attention.output.LayerNorm")
    h = linear(gelu(linear(x, sd, p + ".intermediate.dense")), sd, p + ".output.dense")
    return layer_norm(x + h, sd, p + ".output.LayerNorm")


def score(ids, types, mask, sd, n_layers, n_heads):
    """One relevance logit for each (question, passage) pair."""
    x = embed(ids, types, sd)
    for i in range(n_layers):
        x = layer(x, mask, sd, i, n_heads)
    pooled = np.tanh(linear(x[:, 0], sd, "bert.pooler.dense"))
    return linear(pooled, sd, "classifier")[:, 0]


def rerank(pairs, passages, sd, n_layers=6, n_heads=12, top=10):
    sc = score(*pairs, sd, n_layers, n_heads)
    order = np.argsort(-sc)[:top]
    return [(passages[i], float(sc[i])) for i in order]
