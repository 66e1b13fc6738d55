"""KV cache in int8 with one scale per token and head.

    cache = Int8KV()
    out   = cached_attention(q, k, v, cache)     q, k, v (B, T, H, d): T new tokens

Each new k (and v) vector is stored as round(127 * k / max|k|) with its scale max|k| / 127; ALL
keys and values, the new ones too, are read back from int8 before use.  The result is the ordinary
causal attention (scale 1/sqrt(d)) of the new queries over the de-quantised keys and values: new
token i sees every cached token and new tokens 0..i.   Returns (B, T, H, d).
"""
import torch


def pack(x):
    scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-8) / 127.0
    return torch.round(x / scale).clamp(-127, 127).to(torch.int8), scale


class Int8KV:
    def __init__(self):
        self.store = None

    def append(self, k, v):
        new = [*pack(k), *pack(v)]
        old = self.store
        self.store = new if old is None else [torch.cat([o, n], dim=1) for o, n in zip(old, new)]

    def read(self):
        k8, ks, v8, vs = self.store
        return k8.to(ks.dtype) * ks, v8.to(vs.dtype) * vs


def cached_attention(q, k, v, cache):
    cache.append(k, v)
    K, V = cache.read()
    T, L, d = q.size(1), K.size(1), q.size(-1)
    z = torch.einsum("bthd,blhd->bhtl", q, K) / d ** 0.5
    hide = torch.ones(T, L, dtype=torch.bool, device=q.device).triu(L - T + 1)
    p = torch.softmax(z.masked_fill(hide, -torch.inf), dim=-1)
    return torch.einsum("bhtl,blhd->bthd", p, V)
