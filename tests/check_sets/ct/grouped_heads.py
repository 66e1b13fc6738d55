"""Grouped-query causal attention, no copies of the shared heads."""
import torch
from torch import nn


class GroupedQueryAttention(nn.Module):
    """
    x: (B, L, dim) -> (B, L, dim), causal (a token sees itself and the past).

    `heads` query heads share `kv_heads` key/value heads in consecutive groups:
    query head h uses kv head h // (heads // kv_heads).
    Queries and keys are RMS-normalised per head with learned gains before the
    product; the usual 1/sqrt(head_dim) stays.
    window: if given, a token sees at most `window` tokens INCLUDING itself.
    """

    def __init__(self, dim=32, heads=8, kv_heads=2, window=None):
        super().__init__()
        self.h, self.kv, self.hd = heads, kv_heads, dim // heads
        self.rep = heads // kv_heads
        self.window = window
        self.wq = nn.Linear(dim, heads * self.hd, bias=False)
        self.wk = nn.Linear(dim, kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(dim, kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(heads * self.hd, dim, bias=False)
        self.gq = nn.RMSNorm(self.hd, eps=1e-6)
        self.gk = nn.RMSNorm(self.hd, eps=1e-6)

    def forward(self, x):
        B, L, _ = x.shape
        q = self.gq(self.wq(x).view(B, L, self.kv, self.rep, self.hd))
        k = self.gk(self.wk(x).view(B, L, self.kv, self.hd))
        v = self.wv(x).view(B, L, self.kv, self.hd)
        s = torch.einsum("bqgrd,bkgd->bgrqk", q, k) / self.hd ** 0.5
        i = torch.arange(L, device=x.device)
        back = i[:, None] - i[None, :]
        ok = back >= 0
        if self.window is not None:
            ok = ok & (back < self.window)
        p = s.where(ok, float("-inf")).softmax(-1)
        y = torch.einsum("bgrqk,bkgd->bqgrd", p, v)
        return self.wo(y.reshape(B, L, -1))
