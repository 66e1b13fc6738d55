"""8-bit KV cache: keys and values are stored as int8 with one scale per token and head.

    cache = Int8Cache(heads, d)
    cache.append(k, v)          k, v (B, heads, n, d)
    out = cache.attend(q)       q (B, heads, m, d), the queries of the LAST m tokens appended

Symmetric rounding, x ~ int * s with s = max|x| / 127, so each dequantised entry is off by at
most s/2. attend() is causal: the queries belong to the last m positions of the cache, and
query r sees everything up to its own position. The scales of the keys are multiplied into
the scores and those of the values into the weights, which is the same as dequantising.
"""
import math
import torch


def quantise(x):
    s = x.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127.0
    return torch.round(x / s).to(torch.int8), s.squeeze(-1)


class Int8Cache:
    def __init__(self, heads, d):
        self.heads, self.d = heads, d
        self.k8 = self.v8 = self.ks = self.vs = None

    def __len__(self):
        return 0 if self.k8 is None else self.k8.size(2)

    def append(self, k, v):
        k8, ks = quantise(k)
        v8, vs = quantise(v)
        if self.k8 is None:
            self.k8, self.v8, self.ks, self.vs = k8, v8, ks, vs
        else:
            self.k8 = torch.cat((self.k8, k8), 2)
            self.v8 = torch.cat((self.v8, v8), 2)
            self.ks = torch.cat((self.ks, ks), 2)
            self.vs = torch.cat((self.vs, vs), 2)

    def attend(self, q):
        m, n = q.size(2), len(self)
        s = q @ self.k8.to(q.dtype).transpose(-1, -2)
        s = s * self.ks.unsqueeze(2) / math.sqrt(self.d)
        later = torch.ones(m, n, dtype=torch.bool, device=q.device).triu(n - m + 1)
        p = torch.softmax(s.masked_fill(later, -math.inf), dim=-1)
        return (p * self.vs.unsqueeze(2)) @ self.v8.to(q.dtype)
