"""Luong et al. (2015), local attention with predictive alignment ("local-p").

Homework 3, NumPy forward pass only. For decoder state h_t [B, D] and source
states hs [B, S, D] of true lengths n [B]:

    p_t   = n * sigmoid(v_p . tanh(W_p h_t))
    score = h_t^T W_a hs_s                      ("general")
    a_s   = softmax(score over the window) * exp(-(s - p_t)^2 / (2 sigma^2))
    c_t   = sum_s a_s hs_s,    h~_t = tanh(W_c [c_t; h_t])

The window holds the source positions s (0-based, < n) with |s - p_t| <= D_win and
sigma = D_win / 2. As in the paper the Gaussian multiplies the *normalised*
weights and the product is not normalised again, so the rows sum to at most one.
"""
import numpy as np


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def make_params(d, rng):
    s = 1.0 / np.sqrt(d)
    return dict(
        W_a=rng.uniform(-s, s, (d, d)),
        W_p=rng.uniform(-s, s, (d, d)),
        v_p=rng.uniform(-s, s, d),
        W_c=rng.uniform(-s, s, (2 * d, d)),
    )


def window_mask(p, n, S, half):
    s = np.arange(S)
    return (np.abs(s[None] - p[:, None]) <= half) & (s[None] < n[:, None])


def local_p_step(h, hs, n, params, half=2):
    """One decoder step. Returns h~ [B, D], a [B, S], p [B].

    `half` (the paper's D) must be at least 1, so the window is never empty.
    """
    S = hs.shape[1]
    p = n * sigmoid(np.tanh(h @ params["W_p"]) @ params["v_p"])
    score = np.einsum("bd,de,bse->bs", h, params["W_a"], hs)
    inside = window_mask(p, n, S, half)
    score = np.where(inside, score, -np.inf)
    e = np.exp(score - score.max(axis=1, keepdims=True))
    a = e / e.sum(axis=1, keepdims=True)
    sigma = half / 2
    a = a * np.exp(-((np.arange(S)[None] - p[:, None]) ** 2) / (2 * sigma**2))
    c = np.einsum("bs,bsd->bd", a, hs)
    return np.tanh(np.concatenate([c, h], axis=1) @ params["W_c"]), a, p


def decode(hs, n, start, params, recur, steps, half=2):
    """Input-feeding loop: recur(h_tilde) gives the next decoder state."""
    h, out, align = start, [], []
    for _ in range(steps):
        h_tilde, a, _ = local_p_step(h, hs, n, params, half)
        out.append(h_tilde)
        align.append(a)
        h = recur(h_tilde)
    return np.stack(out, 1), np.stack(align, 1)
