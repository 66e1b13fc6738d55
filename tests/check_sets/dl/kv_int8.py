"""int8 key/value cache for decoding, symmetric, one scale per token and head.

A vector x (over d) is stored as round(x / s) with s = max|x| / 127.  The attention is
computed on the dequantised keys and values, but without building them: a key's scale
multiplies its logit and a value's scale multiplies its weight.
"""
import torch


def pack(x):
    """(.., d) float -> int8 codes (.., d) and scales (..,)."""
    s = x.abs().amax(-1).clamp_min(1e-8) / 127.0
    return torch.round(x / s.unsqueeze(-1)).to(torch.int8), s


class Int8Cache:
    """Grows by concatenation.  Layout of the codes (B, H, T, d), of the scales (B, H, T)."""

    def __init__(self):
        self.parts = None

    def append(self, k, v):
        new = (*pack(k), *pack(v))
        if self.parts is None:
            self.parts = new
        else:
            self.parts = tuple(torch.cat((a, b), dim=2) for a, b in zip(self.parts, new))

    def __len__(self):
        return 0 if self.parts is None else self.parts[0].shape[2]


def attend_int8(q, k, v, cache):
    """Append k, v and attend causally with the T new queries.

    q, k, v: (B, H, T, d), rotary embedding (if any) already applied.
    cache: Int8Cache; afterwards it holds the T new tokens too (also for them the stored,
    rounded values are what is attended to).
    Query i of the T new ones sees every older token and the new ones 0..i.
    Returns (B, H, T, d) with the usual 1/sqrt(d) scale.
    """
    cache.append(k, v)
    kq, ks, vq, vs = cache.parts
    t, n = q.shape[2], len(cache)
    logits = torch.matmul(q, kq.to(q.dtype).transpose(-1, -2)) * ks.unsqueeze(2)
    logits = logits * q.shape[-1] ** -0.5
    later = torch.arange(n)[None, :] > torch.arange(n - t, n)[:, None]
    logits = logits.masked_fill(later, float("-inf"))
    w = logits.softmax(-1)
    return torch.matmul(w * vs.unsqueeze(2), vq.to(q.dtype))
