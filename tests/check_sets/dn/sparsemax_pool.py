"""Pooling of a set with sparse weights.

sparsemax (Martins & Astudillo 2016) is the Euclidean projection of the scores
onto the simplex.  It is used in place of softmax: many weights are exactly 0.

SparsePool(dim, heads, seeds)
    forward(x, lengths)
        x        (B, N, dim)
        lengths  (B,) ints >= 1, elements lengths[b], lengths[b]+1, ... are filling
        ->       pooled (B, seeds, dim), weights (B, heads, seeds, N)
The seeds are learned queries; scores are seed.k / sqrt(dim / heads).  Weights
are >= 0, sum to one over the real elements and are 0 for the filling.
"""
import torch
import torch.nn as nn


def sparsemax(z):
    """along the last axis"""
    srt, _ = torch.sort(z, dim=-1, descending=True)
    cum = srt.cumsum(-1) - 1.0
    rank = torch.arange(1, z.size(-1) + 1, device=z.device, dtype=z.dtype)
    size = (rank * srt > cum).sum(-1, keepdim=True)              # size of the support
    tau = cum.gather(-1, size - 1) / size.to(z.dtype)
    return torch.clamp(z - tau, min=0.0)


class SparsePool(nn.Module):
    def __init__(self, dim, heads=2, seeds=1):
        super().__init__()
        self.h = heads
        self.d = dim // heads
        self.seed = nn.Parameter(torch.randn(heads, seeds, self.d))
        self.kv = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, lengths):
        B, N, C = x.shape
        kv = self.kv(x).reshape(B, N, 2, self.h, self.d)
        k, v = kv[:, :, 0], kv[:, :, 1]
        s = torch.einsum("hsd,bnhd->bhsn", self.seed, k) / self.d ** 0.5
        filling = torch.arange(N, device=x.device) >= lengths[:, None]
        s = s.masked_fill(filling[:, None, None, :], float("-inf"))
        # only scores above (maximum - 1) can be in the support, so this cut
        # changes nothing and keeps the sums inside sparsemax finite
        s = (s - s.amax(dim=-1, keepdim=True)).clamp(min=-2.0)
        w = sparsemax(s)
        y = torch.einsum("bhsn,bnhd->bshd", w, v).flatten(2)
        return self.out(y), w
