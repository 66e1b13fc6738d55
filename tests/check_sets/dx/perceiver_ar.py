"""Perceiver AR forward pass in NumPy (Hawthorne et al. 2022), to understand the masking.

perceiver_ar(x, par, M, heads):
    x    (N, C) embedded inputs, oldest first (positions are already inside)
    M    number of latents, M <= N; latent a stands for input position N - M + a
    par  dict of matrices (C, C): "cq" "ck" "cv" "co" for the cross-attention, and a list
         par["layers"] of dicts "q" "k" "v" "o" for the latent self-attention layers
    returns (M, C)

Cross-attention: the latents' queries come from the last M inputs; latent a may read inputs
0 .. N-M+a (its own position included). Self-attention: latent a may read latents 0 .. a.
Everything has a residual, scale 1/sqrt(C/heads); no layer norms and no MLPs, for brevity.
"""
import numpy as np


def split(t, heads):
    n, c = t.shape
    return t.reshape(n, heads, c // heads).swapaxes(0, 1)


def soft(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def causal_read(q, k, v, heads):
    """The last len(q) of len(k) positions ask; nobody reads past itself."""
    m, n = len(q), len(k)
    Q, K, V = split(q, heads), split(k, heads), split(v, heads)
    s = Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1])
    later = np.arange(n)[None, :] > (np.arange(m) + n - m)[:, None]
    s = np.where(later, -np.inf, s)
    return (soft(s) @ V).swapaxes(0, 1).reshape(m, -1)


def perceiver_ar(x, par, M, heads):
    z = x[len(x) - M:]
    z = z + causal_read(z @ par["cq"], x @ par["ck"], x @ par["cv"], heads) @ par["co"]
    for L in par["layers"]:
        z = z + causal_read(z @ L["q"], z @ L["k"], z @ L["v"], heads) @ L["o"]
    return z
