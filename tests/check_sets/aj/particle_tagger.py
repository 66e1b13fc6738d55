"""Jet tagging with pairwise interactions between constituents (ParT flavour).

Shapes
    x     (N, C, P)    constituent features, P = padded multiplicity
    v     (N, 4, P)    px, py, pz, E
    mask  (N, 1, P)    1 for a real constituent, 0 for a padded slot
The pair features become one additive term per head in the attention logits.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


@torch.no_grad()
def pair_kinematics(v, eps=1e-8):
    """ln kT, ln z, ln dR, ln m2 for all pairs -> (N, 4, P, P)"""
    px, py, pz, e = v.unbind(1)
    pt = (px ** 2 + py ** 2).clamp(min=eps).sqrt()
    rap = 0.5 * torch.log(1 + (2 * pz) / (e - pz).clamp(min=1e-6))
    phi = torch.atan2(py, px)
    i, j = (slice(None), slice(None), None), (slice(None), None, slice(None))
    dphi = torch.remainder(phi[i] - phi[j] + math.pi, 2 * math.pi) - math.pi
    delta = ((rap[i] - rap[j]) ** 2 + dphi ** 2).clamp(min=eps).sqrt()
    ptmin = torch.minimum(pt[i], pt[j])
    kt = ptmin * delta
    z = ptmin / (pt[i] + pt[j]).clamp(min=eps)
    s = v.unsqueeze(3) + v.unsqueeze(2)
    m2 = s[:, 3] ** 2 - s[:, 0] ** 2 - s[:, 1] ** 2 - s[:, 2] ** 2
    return torch.stack([t.clamp(min=eps).log() for t in (kt, z, delta, m2)], dim=1)


class PairEmbed(nn.Module):
    def __init__(self, heads, hidden=16):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(4, hidden, 1), nn.GELU(), nn.Conv2d(hidden, heads, 1))

    def forward(self, v):
        return self.net(pair_kinematics(v))


class InteractionAttention(nn.Module):
    def __init__(self, dim, heads, drop=0.1):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x, pad, bias=None, kv=None):
        """x (P, N, E) queries; kv (S, N, E) keys/values, x itself if not given;
        pad (N, S) True = empty slot; bias (N, H, P, S)."""
        kv = x if kv is None else kv
        P, N, E = x.shape
        wq, wk, wv = self.in_proj.weight.chunk(3)
        bq, bk, bv = self.in_proj.bias.chunk(3)

        def to_heads(t):
            return t.reshape(t.shape[0], N, self.heads, self.hd).permute(1, 2, 0, 3)

        q = to_heads(F.linear(x, wq, bq))
        k = to_heads(F.linear(kv, wk, bk))
        v = to_heads(F.linear(kv, wv, bv))
        logits = torch.matmul(q, k.mT) / math.sqrt(self.hd)
        if bias is not None:
            logits = logits + bias
        logits = logits.masked_fill(pad[:, None, None, :], torch.finfo(logits.dtype).min)
        prob = self.drop(F.softmax(logits, dim=-1))
        o = torch.matmul(prob, v).permute(2, 0, 1, 3).reshape(P, N, E)
        return self.out_proj(o)


class Block(nn.Module):
    def __init__(self, dim, heads, drop=0.1):
        super().__init__()
        self.pre, self.post = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = InteractionAttention(dim, heads, drop)
        self.pre_ff = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Dropout(drop), nn.Linear(4 * dim, dim))

    def forward(self, x, pad, bias=None, cls=None):
        if cls is None:
            x = x + self.post(self.attn(self.pre(x), pad, bias))
            return x + self.ff(self.pre_ff(x))
        u = self.pre(torch.cat([cls, x], dim=0))
        pad = torch.cat([torch.zeros_like(pad[:, :1]), pad], dim=1)
        cls = cls + self.post(self.attn(u[:1], pad, kv=u))
        return cls + self.ff(self.pre_ff(cls))


class ParticleTagger(nn.Module):
    def __init__(self, in_dim=7, dim=64, heads=8, blocks=4, cls_blocks=2, classes=10):
        super().__init__()
        self.embed = nn.Sequential(nn.LayerNorm(in_dim), nn.Linear(in_dim, dim), nn.GELU())
        self.pair = PairEmbed(heads)
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(blocks)])
        self.cls_blocks = nn.ModuleList([Block(dim, heads, drop=0.0) for _ in range(cls_blocks)])
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.fc = nn.Linear(dim, classes)

    def forward(self, x, v, mask):
        pad = ~mask.squeeze(1).bool()
        h = self.embed(x.permute(2, 0, 1)) * mask.permute(2, 0, 1)
        bias = self.pair(v)
        for blk in self.blocks:
            h = blk(h, pad, bias)
        cls = self.cls_token.expand(1, h.size(1), -1)
        for blk in self.cls_blocks:
            cls = blk(h, pad, cls=cls)
        return self.fc(cls.squeeze(0))
