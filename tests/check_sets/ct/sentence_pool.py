"""Pool a sentence into a few vectors by learned queries (legal clause search)."""
import math

import torch
from torch import nn


class QueryPool(nn.Module):
    """
    hidden : (B, L, D) encoder states
    mask   : (B, L) int or bool, nonzero = token counts, 0 = padding
    ->       pooled (B, n, D), weights (B, n, L)

    Each of the n learned queries looks at all tokens. A sentence without any
    counted token is pooled to the bias of `out` and weights of zero.
    """

    def __init__(self, D=20, n=3):
        super().__init__()
        self.seed = nn.Parameter(torch.randn(n, D) / math.sqrt(D))
        self.key = nn.Linear(D, D, bias=False)
        self.val = nn.Linear(D, D, bias=False)
        self.out = nn.Linear(D, D)
        self.temper = math.sqrt(D)

    def forward(self, hidden, mask=None):
        k, v = self.key(hidden), self.val(hidden)
        logit = (k @ self.seed.T).transpose(1, 2) / self.temper       # (B, n, L)
        if mask is None:
            mask = hidden.new_ones(hidden.shape[:2])
        keep = mask.ne(0)[:, None, :].to(logit.dtype)
        # exponentials first, then throw padding away and normalise the rest
        peak = (logit + (1 - keep) * torch.finfo(logit.dtype).min / 2).amax(-1, keepdim=True)
        e = torch.exp((logit - peak).clamp(max=0)) * keep
        w = e / e.sum(-1, keepdim=True).clamp_min(1e-20)
        return self.out(w @ v), w
