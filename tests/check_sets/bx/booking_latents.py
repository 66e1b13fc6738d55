"""Hotel demand: a Perceiver-like reader of the booking ledger, in NumPy.

L latent rows (learned) query the N bookings of a night; N differs from night
to night, the result has always L rows.  A booking mask is additive: 0 for a
valid booking, -inf for a cancelled one, shape (N,).  If all bookings are
cancelled the latents are returned as they are.
"""
import numpy as np


def linear(params, name, x):
    return x @ params[f"{name}.weight"].T + params[f"{name}.bias"]


def cross_read(params, latents, bookings, penalty, n_heads):
    nl, dim = latents.shape
    hd = dim // n_heads
    q = linear(params, "q", latents).reshape(nl, n_heads, hd)
    k = linear(params, "k", bookings).reshape(-1, n_heads, hd)
    v = linear(params, "v", bookings).reshape(-1, n_heads, hd)
    logit = np.einsum("lhd,nhd->hln", q, k) / np.sqrt(hd) + penalty
    top = logit.max(-1, keepdims=True)
    e = np.exp(logit - top)
    read = np.einsum("hln,nhd->lhd", e / e.sum(-1, keepdims=True), v)
    return linear(params, "o", read.reshape(nl, dim))


def encode_night(params, bookings, penalty=None, n_heads=2):
    """bookings (N, features) -> (L, dim)"""
    latents = params["latents"]
    if penalty is None:
        penalty = np.zeros(len(bookings))
    if not np.isfinite(penalty).any():
        return latents.copy()
    x = latents + cross_read(params, latents, bookings, penalty, n_heads)
    return x + linear(params, "f2", np.maximum(linear(params, "f1", x), 0))


def make_params(features=7, dim=8, latents=3, seed=0):
    rng = np.random.default_rng(seed)
    params = {"latents": rng.normal(size=(latents, dim))}
    sizes = {"q": (dim, dim), "k": (features, dim), "v": (features, dim), "o": (dim, dim),
             "f1": (dim, 16), "f2": (16, dim)}
    for name, (i, o) in sizes.items():
        params[f"{name}.weight"] = rng.normal(size=(o, i)) / np.sqrt(i)
        params[f"{name}.bias"] = rng.normal(size=o) * 0.1
    return params
