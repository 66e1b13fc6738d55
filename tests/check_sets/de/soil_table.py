import torch
import torch.nn as nn
import torch.nn.functional as F


class SoilTable(nn.Module):
    """Predicts soil carbon from a row of lab measurements.

    Columns are tokens which attend to each other, missing measurements (NaN)
    get a learned vector instead.
    """

    def __init__(self, columns=9, width=20, heads=5):
        super().__init__()
        self.heads, self.width = heads, width
        self.gain = nn.Parameter(torch.randn(columns, width) * 0.3)
        self.name = nn.Parameter(torch.randn(columns, width) * 0.3)
        self.missing = nn.Parameter(torch.randn(width) * 0.3)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.final = nn.Linear(width, 1)

    def tokens(self, row):
        absent = row.isnan().unsqueeze(-1)
        val = row.nan_to_num(0.0).unsqueeze(-1) * self.gain
        return torch.where(absent, self.missing, val) + self.name

    def forward(self, row):
        x = self.tokens(row)
        b, c, w = x.shape
        hd = w // self.heads
        q, k, v = (f(x).reshape(b, c, self.heads, hd).transpose(1, 2) for f in (self.q, self.k, self.v))
        sim = q.matmul(k.transpose(2, 3)).mul(hd ** -0.5)
        att = F.softmax(sim, dim=1)
        x = x + self.o(att.matmul(v).transpose(1, 2).reshape(b, c, w))
        return self.final(x.mean(dim=1)).squeeze(-1)
