"""Assignment 3, part 2: layers for the captioning transformer (NumPy only).

Every layer has a *_forward that returns (out, cache) and a *_backward that
takes the upstream derivative and the cache.
Shapes: N batch, T target length, S source length, D model width, H heads.
"""
import numpy as np


def affine_forward(x, w, b):
    return x @ w + b, (x, w)


def affine_backward(dout, cache):
    x, w = cache
    dx = dout @ w.T
    flat_x, flat_d = x.reshape(-1, x.shape[-1]), dout.reshape(-1, dout.shape[-1])
    return dx, flat_x.T @ flat_d, flat_d.sum(axis=0)


def _heads(x, H):
    N, L, D = x.shape
    return x.reshape(N, L, H, D // H).transpose(0, 2, 1, 3)


def _unheads(x):
    N, H, L, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(N, L, H * d)


def multihead_attention_forward(query, key, value, params, num_heads, attn_mask=None):
    """
    Inputs:
    - query: (N, T, D); key, value: (N, S, D)
    - params: dict with Wq, bq, Wk, bk, Wv, bv, Wo, bo (weights are (D, D), x @ W)
    - attn_mask: (T, S) or (N, T, S) array of bools, True where source position j
      may influence target position i. Every row has at least one True.

    Returns a tuple of out (N, T, D) and cache.
    """
    q, cq = affine_forward(query, params["Wq"], params["bq"])
    k, ck = affine_forward(key, params["Wk"], params["bk"])
    v, cv = affine_forward(value, params["Wv"], params["bv"])
    q, k, v = (_heads(t, num_heads) for t in (q, k, v))

    scale = 1.0 / np.sqrt(q.shape[-1])
    scores = np.einsum("nhtd,nhsd->nhts", q, k) * scale
    if attn_mask is not None:
        allowed = np.asarray(attn_mask, dtype=bool)
        if allowed.ndim == 3:
            allowed = allowed[:, None]
        scores = np.where(allowed, scores, -np.inf)
    scores = scores - scores.max(axis=-1, keepdims=True)
    probs = np.exp(scores)
    probs /= probs.sum(axis=-1, keepdims=True)

    mixed = _unheads(probs @ v)
    out, co = affine_forward(mixed, params["Wo"], params["bo"])
    return out, (cq, ck, cv, co, q, k, v, probs, scale, num_heads)


def multihead_attention_backward(dout, cache):
    """Returns (dquery, dkey, dvalue, grads) where grads mirrors params."""
    cq, ck, cv, co, q, k, v, probs, scale, H = cache
    grads = {}
    dmixed, grads["Wo"], grads["bo"] = affine_backward(dout, co)
    dmixed = _heads(dmixed, H)

    dprobs = dmixed @ v.transpose(0, 1, 3, 2)
    dv = probs.transpose(0, 1, 3, 2) @ dmixed
    # softmax jacobian, row by row
    dscores = probs * (dprobs - np.sum(dprobs * probs, axis=-1, keepdims=True))
    dq = scale * dscores @ k
    dk = scale * dscores.transpose(0, 1, 3, 2) @ q

    dquery, grads["Wq"], grads["bq"] = affine_backward(_unheads(dq), cq)
    dkey, grads["Wk"], grads["bk"] = affine_backward(_unheads(dk), ck)
    dvalue, grads["Wv"], grads["bv"] = affine_backward(_unheads(dv), cv)
    return dquery, dkey, dvalue, grads


def layernorm_forward(x, gamma, beta, eps=1e-5):
    mu = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    xhat = (x - mu) / np.sqrt(var + eps)
    return gamma * xhat + beta, (xhat, gamma, var, eps)


def init_params(D, rng, std=0.02):
    p = {f"W{n}": std * rng.standard_normal((D, D)) for n in "qkvo"}
    p.update({f"b{n}": np.zeros(D) for n in "qkvo"})
    return p
