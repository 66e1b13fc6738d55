"""Plain-function inference of the bout commentator (no nn.Module anywhere).

Weights are a flat dict as it comes out of the safetensors file:

    blk.{i}.norm            [dim]
    blk.{i}.qkv.w / .b      [(H + 2 * G) * D, dim]   all q, then all k, then all v
    blk.{i}.sinks           [H]      one learned logit per query head
    blk.{i}.out.w / .b      [dim, H * D]

A sink logit takes part in the softmax as a key without a value, i.e. a head can
put part of its weight nowhere and its visible weights sum to less than one.  Even
layers see the last WINDOW touches (the present one counts), odd layers see everything
before.  H / G neighbouring query heads share a key/value head.
"""
import math

import torch
import torch.nn.functional as F

H, G, D, DIM = 8, 2, 12, 48
WINDOW = 5
BASE = 150000.0


def rope(x, start=0):
    """x [T, ..., D]; first half of the channels paired with the second half."""
    half = x.shape[-1] // 2
    inv = BASE ** (-torch.arange(half, dtype=torch.float32) / half)
    ang = (start + torch.arange(x.shape[0], dtype=torch.float32))[:, None] * inv
    ang = ang.view(x.shape[0], *([1] * (x.ndim - 2)), half)
    a, b = x.float().chunk(2, -1)
    c, s = ang.cos(), ang.sin()
    return torch.cat((a * c - b * s, b * c + a * s), -1).to(x.dtype)


def sink_softmax_pool(q, k, v, sinks, window=0):
    """q [T, G, M, D], k and v [S, G, D], sinks [G * M]; the queries are the last T of S."""
    T, groups, m, d = q.shape
    S = k.shape[0]
    logits = torch.einsum("tgmd,sgd->gmts", q, k) / math.sqrt(d)
    age = torch.arange(S - T, S)[:, None] - torch.arange(S)[None]
    hidden = age < 0
    if window:
        hidden = hidden | (age >= window)
    logits = logits.masked_fill(hidden, -torch.inf)
    pit = sinks.view(groups, m, 1, 1).expand(-1, -1, T, 1)
    w = torch.cat([logits, pit.to(logits.dtype)], -1).float().softmax(-1)[..., :-1]
    return torch.einsum("gmts,sgd->tgmd", w.to(v.dtype), v).reshape(T, -1)


def attend_touches(x, W, i, cache=None):
    """One residual attention sub-block. x [T, DIM]; `cache` is a dict that we own and extend."""
    T = x.shape[0]
    n = F.rms_norm(x, (DIM,), W[f"blk.{i}.norm"], 1e-5)
    qkv = F.linear(n, W[f"blk.{i}.qkv.w"], W[f"blk.{i}.qkv.b"])
    q, k, v = qkv.split([H * D, G * D, G * D], -1)
    q, k, v = q.view(T, G, H // G, D), k.view(T, G, D), v.view(T, G, D)
    seen = 0 if cache is None or i not in cache else cache[i][0].shape[0]
    q, k = rope(q, seen), rope(k, seen)
    if cache is not None:
        if seen:
            k, v = torch.cat([cache[i][0], k]), torch.cat([cache[i][1], v])
        cache[i] = (k, v)
    y = sink_softmax_pool(q, k, v, W[f"blk.{i}.sinks"], WINDOW if i % 2 == 0 else 0)
    return x + F.linear(y, W[f"blk.{i}.out.w"], W[f"blk.{i}.out.b"])


def random_weights(layers=2, seed=0):
    g = torch.Generator().manual_seed(seed)
    r = lambda *s, k=0.2: torch.randn(*s, generator=g) * k
    W = {}
    for i in range(layers):
        W[f"blk.{i}.norm"] = 1 + r(DIM)
        W[f"blk.{i}.qkv.w"], W[f"blk.{i}.qkv.b"] = r((H + 2 * G) * D, DIM), r((H + 2 * G) * D)
        W[f"blk.{i}.sinks"] = r(H, k=1.0)
        W[f"blk.{i}.out.w"], W[f"blk.{i}.out.b"] = r(DIM, H * D), r(DIM)
    return W


def main():
    W, cache = random_weights(), {}
    bout = torch.randn(7, DIM)
    for part in bout.split(3):
        for i in range(2):
            part = attend_touches(part, W, i, cache)
        print(part.shape, cache[0][0].shape)


if __name__ == "__main__":
    main()
