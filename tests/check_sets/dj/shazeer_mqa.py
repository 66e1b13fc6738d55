"""Fast Transformer Decoding: One Write-Head is All You Need (Shazeer, 2019).

NumPy transcription of sections 3 and 2.3 of the paper with its letters:
b batch, n queries, m memory, d model, h heads, k key width, v value width.

As in the paper's listings the logits are NOT divided by sqrt(k). The factor sits in
P_q: `initialise` draws P_q with variance 1/(d*k), so the product is already scaled.
Checkpoints are stored with that convention.
"""
import numpy as np


def initialise(d, h, k, v, seed=0):
    r = np.random.default_rng(seed)
    return dict(
        P_q=r.normal(size=(h, d, k)) / np.sqrt(d * k),
        P_k=r.normal(size=(d, k)) / np.sqrt(d),
        P_v=r.normal(size=(d, v)) / np.sqrt(d),
        P_o=r.normal(size=(h, d, v)) / np.sqrt(h * v),
    )


def softmax(z):
    z = np.exp(z - np.max(z, axis=-1, keepdims=True))
    return z / np.sum(z, axis=-1, keepdims=True)


def multiquery_attention_batched(X, M, mask, P_q, P_k, P_v, P_o):
    """Multi-query attention: h query heads, one head of keys and values.

    X: [b, n, d]   M: [b, m, d]
    mask: [b, h, n, m] or broadcastable, added to the logits: 0 = read, -1e9 = hidden
    P_q: [h, d, k]  P_k: [d, k]  P_v: [d, v]  P_o: [h, d, v]
    returns Y: [b, n, d]
    """
    Q = np.einsum("bnd,hdk->bhnk", X, P_q)
    K = np.einsum("bmd,dk->bmk", M, P_k)
    V = np.einsum("bmd,dv->bmv", M, P_v)
    logits = np.einsum("bhnk,bmk->bhnm", Q, K)
    weights = softmax(logits + mask)
    O = np.einsum("bhnm,bmv->bhnv", weights, V)
    return np.einsum("bhnv,hdv->bnd", O, P_o)


def multiquery_self_attention_incremental(x, prev_K, prev_V, P_q, P_k, P_v, P_o):
    """One decoding step.

    x: [b, d] newest token; prev_K: [b, m, k], prev_V: [b, m, v] (m may be 0)
    returns y: [b, d], new_K: [b, m+1, k], new_V: [b, m+1, v]
    """
    q = np.einsum("bd,hdk->bhk", x, P_q)
    K = np.concatenate([prev_K, np.expand_dims(x @ P_k, 1)], axis=1)
    V = np.concatenate([prev_V, np.expand_dims(x @ P_v, 1)], axis=1)
    weights = softmax(np.einsum("bhk,bmk->bhm", q, K))
    o = np.einsum("bhm,bmv->bhv", weights, V)
    return np.einsum("bhv,hdv->bd", o, P_o), K, V
