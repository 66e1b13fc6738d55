"""bert in one file, numpy only. Loads the state dict of a HF BertModel
(converted with `np.savez(path, **{k: v.numpy() for k, v in sd.items()})`)
and gives sentence vectors. Good enough for semantic search on a Raspberry Pi."""

import numpy as np


def erf(x):
    # Abramowitz & Stegun 7.1.26, max error 1.5e-7
    s = np.sign(x)
    x = np.abs(x)
    t = 1 / (1 + 0.3275911 * x)
    y = 1 - (((((1.061405429 * t - 1.453152027) * t) + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * np.exp(-x * x)
    return s * y


def gelu(x):
    return x * 0.5 * (1.0 + erf(x / 1.4142135623730951))


class Scope:
    """Tiny view on the weight dict: Scope(w, 'a.b')('c') == w['a.b.c']"""

    def __init__(self, w, prefix=""):
        self.w, self.prefix = w, prefix

    def __truediv__(self, name):
        return Scope(self.w, f"{self.prefix}.{name}" if self.prefix else str(name))

    def __call__(self, name):
        return self.w[f"{self.prefix}.{name}"]


def dense(s, x):
    return np.dot(x, s("weight").T) + s("bias")


def norm(s, x, eps=1e-12):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * s("weight") + s("bias")


def bert_self_attention(s, x, attention_mask, n_heads):
    """s: scope 'encoder.layer.N.attention'; x [b, t, c];
    attention_mask [b, t] with 1 for words and 0 for padding (tokenizer output)."""
    b, t, c = x.shape
    hd = c // n_heads

    def heads(name):
        return dense(s / "self" / name, x).reshape(b, t, n_heads, hd)

    q, k, v = heads("query"), heads("key"), heads("value")
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / hd ** 0.5
    scores += (1.0 - attention_mask[:, None, None, :]) * -1e9
    scores -= scores.max(axis=3, keepdims=True)
    probs = np.exp(scores)
    probs /= probs.sum(axis=3, keepdims=True)
    ctx = np.einsum("bhqk,bkhd->bqhd", probs, v).reshape(b, t, c)
    return norm(s / "output" / "LayerNorm", dense(s / "output" / "dense", ctx) + x)


def feed_forward(s, x):
    h = gelu(dense(s / "intermediate" / "dense", x))
    return norm(s / "output" / "LayerNorm", dense(s / "output" / "dense", h) + x)


class TinyBert:
    def __init__(self, weights, n_layers, n_heads):
        self.root = Scope(weights)
        self.n_layers = n_layers
        self.n_heads = n_heads

    @classmethod
    def load(cls, path, n_layers=6, n_heads=12):
        with np.load(path) as z:
            return cls({k: z[k] for k in z.files}, n_layers, n_heads)

    def embed(self, ids, types=None):
        e = self.root / "embeddings"
        types = np.zeros_like(ids) if types is None else types
        x = (e / "word_embeddings")("weight")[ids]
        x = x + (e / "position_embeddings")("weight")[None, :ids.shape[1]]
        x = x + (e / "token_type_embeddings")("weight")[types]
        return norm(e / "LayerNorm", x)

    def __call__(self, ids, attention_mask):
        x = self.embed(ids)
        for i in range(self.n_layers):
            layer = self.root / "encoder" / "layer" / i
            x = bert_self_attention(layer / "attention", x, attention_mask, self.n_heads)
            x = feed_forward(layer, x)
        return x

    def sentence_vectors(self, ids, attention_mask):
        x = self(ids, attention_mask)
        m = attention_mask[..., None]
        v = (x * m).sum(1) / m.sum(1)
        return v / np.linalg.norm(v, axis=-1, keepdims=True)


def search(query_vec, doc_vecs, top=5):
    sims = doc_vecs @ query_vec
    best = np.argsort(-sims)[:top]
    return [(int(i), float(sims[i])) for i in best]
