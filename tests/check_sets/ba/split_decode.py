"""Split-KV decoding across workers.

Workers (torch) return a partial output and the natural log-sum-exp of their
chunk; the front end (NumPy, no torch on that box) puts the partials together.
"""
import json
import math
import numpy as np
import torch


def worker(q, k, v):
    """q [H, d]; k, v [S, H, d] -> {"o": [H][d], "lse": [H]} as plain lists.

    A worker that got no keys answers with lse = -inf and zeros.
    """
    H, d = q.shape
    if k.shape[0] == 0:
        return {"o": torch.zeros(H, d).tolist(), "lse": [float("-inf")] * H}
    s = torch.einsum("hd,shd->hs", q, k) / math.sqrt(d)
    lse = torch.logsumexp(s, dim=-1)
    w = torch.exp(s - lse[:, None])
    return {"o": torch.einsum("hs,shd->hd", w, v).tolist(), "lse": lse.tolist()}


def to_wire(reply):
    return json.dumps(reply)


def from_wire(text):
    r = json.loads(text)
    return np.asarray(r["o"], np.float64), np.asarray(r["lse"], np.float64)


def combine(parts):
    """parts: list of (o [H,d], lse [H])  ->  (o [H,d], lse [H])"""
    o = np.stack([p[0] for p in parts])
    lse = np.stack([p[1] for p in parts])
    top = lse.max(axis=0)
    safe = np.where(np.isfinite(top), top, 0.0)
    w = np.exp(lse - safe)
    total = w.sum(axis=0)
    out = (w[..., None] * o).sum(axis=0)
    out = out / np.where(total > 0, total, 1.0)[:, None]
    with np.errstate(divide="ignore"):
        return out, safe + np.log(total)


def decode_attention(q, k, v, n_workers=3):
    """The whole round trip. q [H,d], k and v [S,H,d]; every key is visible to the new token."""
    cuts = torch.linspace(0, k.shape[0], n_workers + 1).long().tolist()
    parts = []
    for a, b in zip(cuts[:-1], cuts[1:]):
        parts.append(from_wire(to_wire(worker(q, k[a:b], v[a:b]))))
    out, _ = combine(parts)
    return torch.from_numpy(out).to(q.dtype)


if __name__ == "__main__":
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 8), torch.randn(11, 2, 8), torch.randn(11, 2, 8)
    print(decode_attention(q, k, v).shape)
