"""Text layer after Swin V2: cosine logits, residual post-norm, and a relative
bias that a small MLP makes from log-spaced distances.

logit[h,i,j] = cos(q_i, k_j) * min(exp(tau_h), 100) + bias_h(i - j)
bias_h(r)    = 16 * sigmoid(MLP(sign(r) * log2(1 + |r|)))_h

There is no 1/sqrt(d): the learned temperature takes its place (as in the paper).

    CosLayer(dim, nh)
    x    (B, L, dim)
    keep (B, L) bool, True = real token; at least one per sample
Both sublayers normalise their *output* before the residual sum.
"""
import math
import torch
from torch import nn
from torch.nn import functional as F


class CosLayer(nn.Module):
    def __init__(self, dim, nh):
        super().__init__()
        self.nh = nh
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim)
        self.tau = nn.Parameter(torch.full((nh, 1, 1), math.log(10.0)))
        self.cpb = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, nh, bias=False))
        self.proj = nn.Linear(dim, dim)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def rel(self, L, like):
        r = torch.arange(L, device=like.device, dtype=like.dtype)
        r = r[:, None] - r[None, :]
        r = r.sign() * torch.log2(1 + r.abs())
        return 16 * torch.sigmoid(self.cpb(r[..., None])).permute(2, 0, 1)   # (nh, L, L)

    def heads(self, z):
        return z.unflatten(-1, (self.nh, -1)).movedim(-2, 1)

    def forward(self, x, keep=None):
        q, k, v = (self.heads(f(x)) for f in (self.to_q, self.to_k, self.to_v))
        logit = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT
        logit = logit * self.tau.clamp(max=math.log(100.0)).exp() + self.rel(x.size(1), x)
        if keep is not None:
            logit = logit.masked_fill(~keep[:, None, None, :], -1e9)
        o = logit.softmax(-1) @ v
        o = o.movedim(1, -2).flatten(-2)
        x = x + self.n1(self.proj(o))
        return x + self.n2(self.mlp(x))
