"""Attention over packed sequences.

Everything is stored without padding: x is [total, dim], and cu is the usual int
offsets tensor [0, n0, n0+n1, ..., total]. Tokens of different sequences never mix.
"""
import torch
from torch import nn


class PackedAttn(nn.Module):
    def __init__(self, dim=30, heads=5, causal=True):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.tau = nn.Parameter(torch.zeros(heads))   # log temperature, learned

    def forward(self, x, cu, return_weights=False):
        n, dim = x.shape
        d = dim // self.heads
        t = torch.arange(n, device=x.device)
        # which sequence a token is in; right=True so that cu[i] itself starts sequence i
        seq = torch.bucketize(t, cu[1:], right=True)
        allowed = seq[:, None] == seq[None, :]
        if self.causal:
            allowed &= t[:, None] >= t[None, :]
        q, k, v = self.wqkv(x).reshape(n, 3, self.heads, d).unbind(1)
        s = torch.einsum("ihd,jhd->hij", q, k) * d ** -0.5
        s = s * torch.exp(-self.tau)[:, None, None]
        s = torch.where(allowed, s, s.new_tensor(float("-inf")))   # own token always allowed
        p = torch.softmax(s, dim=-1)
        y = self.wo(torch.einsum("hij,jhd->ihd", p, v).reshape(n, dim))
        return (y, p) if return_weights else y


def lengths_to_cu(lengths):
    """[3, 5, 2] -> tensor [0, 3, 8, 10]"""
    l = torch.as_tensor(lengths)
    return torch.cat([l.new_zeros(1), l.cumsum(0)])
