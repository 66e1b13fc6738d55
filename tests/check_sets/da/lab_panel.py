import math
import torch
from torch import nn


class PanelSummary(nn.Module):
    """Summarise a table row of laboratory values into a few learned seeds.

    values   (B, F)  one number per test
    missing  (B, F)  True where the test was not taken
    returns  (B, seeds, width); a patient without any test gets zeros from the
             pooling, that is, only the seeds pass through.
    """

    def __init__(self, fields=9, width=16, heads=4, seeds=3):
        super().__init__()
        self.heads = heads
        self.column = nn.Parameter(torch.randn(fields, width))
        self.slope = nn.Parameter(torch.randn(fields, width))
        self.seed = nn.Parameter(torch.randn(seeds, width))
        self.wk = nn.Linear(width, width)
        self.wv = nn.Linear(width, width)

    def forward(self, values, missing):
        values = torch.where(missing, torch.zeros_like(values), values)
        tokens = self.column + values.unsqueeze(-1) * self.slope
        B, Fn, W = tokens.shape
        d = W // self.heads
        k = self.wk(tokens).view(B, Fn, self.heads, d)
        v = self.wv(tokens).view(B, Fn, self.heads, d)
        s = self.seed.view(-1, self.heads, d)
        logit = torch.einsum("phd,bfhd->bhpf", s, k) / math.sqrt(d)
        absent = missing[:, None, None, :]
        logit = logit.masked_fill(absent, torch.finfo(logit.dtype).min)
        a = logit.softmax(-1).masked_fill(absent, 0.0)
        pooled = torch.einsum("bhpf,bfhd->bphd", a, v).reshape(B, -1, W)
        return self.seed + pooled
