"""Memory efficient attention (Rabe & Staats) for the genome model: sequences of 100k bases do not
fit otherwise.  Result equals softmax(q k^T / sqrt(d)) v with the padding left out.
"""
import torch
from torch import nn


def chunked_attention(q, k, v, key_pad=None, chunk=128):
    """q [..., M, d], k [..., N, d], v [..., N, e]; key_pad bool [..., N], True = padding."""
    q = q * q.shape[-1] ** -0.5
    top = q.new_full((*q.shape[:-1], 1), -1e30)
    num = q.new_zeros(*q.shape[:-1], v.shape[-1])
    den = q.new_zeros(*q.shape[:-1], 1)
    for a in range(0, k.shape[-2], chunk):
        kc, vc = k[..., a : a + chunk, :], v[..., a : a + chunk, :]
        s = q @ kc.transpose(-1, -2)
        if key_pad is not None:
            s = s.masked_fill(key_pad[..., None, a : a + chunk], float("-inf"))
        new_top = torch.maximum(top, s.amax(-1, keepdim=True))
        p = torch.exp(s - new_top)
        shrink = torch.exp(top - new_top)
        den = den * shrink + p.sum(-1, keepdim=True)
        num = num + p @ vc
        top = new_top
    return num / den.clamp_min(1e-30)


class GenomeMixer(nn.Module):
    def __init__(self, dim, heads, chunk=128):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.pre = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, key_pad=None):
        q, k, v = self.qkv(self.pre(x)).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(-2, -3) for t in (q, k, v))
        if key_pad is not None:
            key_pad = key_pad[:, None]
        y = chunked_attention(q, k, v, key_pad, self.chunk)
        return x + self.out(y.transpose(-2, -3).flatten(-2))


class GenomeNet(nn.Module):
    def __init__(self, dim=32, heads=4, depth=2, chunk=128):
        super().__init__()
        self.base = nn.Embedding(6, dim, padding_idx=0)
        self.conv = nn.Conv1d(dim, dim, 7, padding=3)
        self.layers = nn.ModuleList([GenomeMixer(dim, heads, chunk) for _ in range(depth)])
        self.track = nn.Linear(dim, 2)

    def forward(self, ids):
        x = self.base(ids)
        x = x + self.conv(x.transpose(1, 2)).transpose(1, 2)
        for l in self.layers:
            x = l(x, ids.eq(0))
        return self.track(x)
