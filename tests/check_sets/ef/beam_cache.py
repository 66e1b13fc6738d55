"""Beam search step with a key/value cache, functional.

beam_step(x, cache, parent, w, n_heads)
    x       (R, D)  embedding of the newest token of each of the R beams
    cache   (k, v), each (R, H, P, d): the tokens of the beams BEFORE reordering
    parent  (R,) long: beam r continues old beam parent[r], so it has to
            read the history of that beam
    w       dict wq, wk, wv, wo, each (D, D), used as x @ w
    returns y (R, D), cache with P+1 tokens

Scaled dot-product attention of the newest token over the history of its
parent plus itself.
"""
import torch


def _split(t, n_heads):
    return t.view(t.size(0), n_heads, 1, -1)


def reorder(cache, parent):
    k, v = cache
    return k.index_select(0, parent), v


def beam_step(x, cache, parent, w, n_heads):
    R, D = x.shape
    k_old, v_old = reorder(cache, parent)
    q = _split(x @ w["wq"], n_heads)
    k = torch.cat([k_old, _split(x @ w["wk"], n_heads)], dim=2)
    v = torch.cat([v_old, _split(x @ w["wv"], n_heads)], dim=2)
    s = torch.matmul(q, k.mT) * (D // n_heads) ** -0.5
    y = torch.matmul(torch.softmax(s, dim=-1), v)
    return y.reshape(R, D) @ w["wo"], (k, v)
