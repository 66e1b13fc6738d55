import math

import torch
import torch.nn.functional as F


def make_attention(n_heads, causal=False, window=None, dropout=0.0):
    """Returns attend(x, weights, train=False) for x (B, T, C).

    window: a token sees itself and the window - 1 tokens before it (causal) or the tokens less than
    `window` steps away (not causal).
    weights: dict with wq, wk, wv, wo of shape (C, C), applied as x @ w.
    """

    def allowed(T, device):
        delta = torch.arange(T, device=device)[:, None] - torch.arange(T, device=device)
        ok = delta >= 0 if causal else torch.ones_like(delta, dtype=torch.bool)
        if window is not None:
            ok = ok & (delta.abs() < window)
        return ok

    def heads(t):
        return t.unflatten(-1, (n_heads, -1)).transpose(-2, -3)

    def attend(x, weights, train=False):
        q, k, v = (heads(x @ weights[n]) for n in ("wq", "wk", "wv"))
        mask = allowed(x.size(1), x.device) if causal or window is not None else None
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout if train else 0.0)
        return y.transpose(-2, -3).flatten(-2) @ weights["wo"]

    return attend


def random_weights(C, generator=None):
    return {n: torch.randn(C, C, generator=generator) / math.sqrt(C) for n in ("wq", "wk", "wv", "wo")}
