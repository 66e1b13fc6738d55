import torch
import torch.nn as nn


class ColumnTokens(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(n, d))
        self.shift = nn.Parameter(torch.randn(n, d))
        self.verdict = nn.Parameter(torch.randn(d))

    def forward(self, row):
        t = row[..., None] * self.scale + self.shift
        return torch.cat([self.verdict.expand(len(row), 1, -1), t], 1)


class LedgerColumns(nn.Module):
    """Columns of a payment record attend to each other; a verdict token gives the fraud logit.

    row (B, n_cols) float; missing (B, n_cols) bool, True = column not filled (its content may
    be NaN). The heads' results are gated by sigmoid(W x) before the output layer.
    """

    def __init__(self, n_cols=6, d=16, heads=2):
        super().__init__()
        self.tok = ColumnTokens(n_cols, d)
        self.heads = heads
        self.pre = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.valve = nn.Linear(d, d)
        self.mend = nn.Linear(d, d)
        self.logit = nn.Linear(d, 1)

    def mix(self, x, closed):
        n, h = self.pre(x), self.heads
        q, k, v = (t.unflatten(-1, (h, -1)).transpose(1, 2) for t in self.qkv(n).chunk(3, -1))
        w = torch.einsum("bhid,bhjd->bhij", q, k).div(q.size(-1) ** 0.5)
        w = w.masked_fill(closed[:, None, None], -torch.inf).softmax(3)
        y = torch.einsum("bhij,bhjd->bihd", w, v).flatten(2)
        return x + self.mend(y * torch.sigmoid(self.valve(n)))

    def forward(self, row, missing):
        row = torch.where(missing, torch.zeros_like(row), row)
        closed = nn.functional.pad(missing, (1, 0), value=False)
        return self.logit(self.mix(self.tok(row), closed)[:, 0]).squeeze(-1)
