"""SAINT for tables (Somepalli et al. 2021): column attention and ROW attention.

Row ("intersample") attention lets the samples of a batch look at each other: a row with
missing values can borrow from similar rows. At test time rows are put in a batch together
with training rows, see `predict_with_context`.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Fc(nn.Module):
    def __init__(self, d, mult=4, p=0.1):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, d * mult * 2), nn.GLU(), nn.Dropout(p), nn.Linear(d * mult, d))

    def forward(self, x):
        return self.net(x)


class RowAttention(nn.Module):
    """Multi-head attention across the rows of the batch.

    x is [rows, columns, d]. Each row is taken as ONE token of width columns * d, the
    token sequence is the batch: row r gathers from all rows of the batch, itself
    included. `usable` [rows] bool, if given, is False for rows nobody may look at.
    """

    def __init__(self, n_cols, d, heads=8, dim_head=64, p=0.1):
        super().__init__()
        self.heads, self.dim_head, self.p = heads, dim_head, p
        inner = heads * dim_head
        self.to_qkv = nn.Linear(n_cols * d, inner * 3, bias=False)
        self.to_out = nn.Linear(inner, n_cols * d)

    def forward(self, x, usable=None):
        rows, cols, d = x.shape
        flat = x.reshape(rows, cols * d)
        q, k, v = (t.view(rows, self.heads, self.dim_head) for t in self.to_qkv(flat).chunk(3, dim=-1))
        sim = torch.einsum("ihd,jhd->hij", q, k) * self.dim_head ** -0.5
        if usable is not None:
            sim = sim.masked_fill(~usable, -torch.finfo(sim.dtype).max)
        attn = F.dropout(sim.softmax(dim=-1), self.p, self.training)
        out = torch.einsum("hij,jhd->ihd", attn, v).reshape(rows, -1)
        return self.to_out(out).view(rows, cols, d)


class ColAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.mha = nn.MultiheadAttention(d, heads, batch_first=True)

    def forward(self, x):
        return self.mha(x, x, x, need_weights=False)[0]


class SaintLayer(nn.Module):
    def __init__(self, n_cols, d, heads):
        super().__init__()
        self.col, self.row = ColAttention(d, heads), RowAttention(n_cols, d, heads, dim_head=16)
        self.ff1, self.ff2 = Fc(d), Fc(d)
        self.n = nn.ModuleList(nn.LayerNorm(d) for _ in range(4))

    def forward(self, x, usable):
        x = x + self.col(self.n[0](x))
        x = x + self.ff1(self.n[1](x))
        x = x + self.row(self.n[2](x), usable)
        return x + self.ff2(self.n[3](x))


class Saint(nn.Module):
    def __init__(self, n_num, cards, d=32, heads=8, depth=2, n_out=2):
        super().__init__()
        self.num = nn.ModuleList(nn.Sequential(nn.Linear(1, d), nn.ReLU(), nn.Linear(d, d)) for _ in range(n_num))
        self.cat = nn.ModuleList(nn.Embedding(c, d) for c in cards)
        self.missing = nn.Parameter(torch.zeros(n_num, d))
        self.cls = nn.Parameter(torch.randn(d) * 0.02)
        n_cols = 1 + n_num + len(cards)
        self.layers = nn.ModuleList(SaintLayer(n_cols, d, heads) for _ in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, n_out))

    def tokens(self, x_num, x_cat):
        cols = [self.cls.expand(len(x_num), -1)]
        for i, f in enumerate(self.num):
            v = x_num[:, i:i + 1]
            gap = torch.isnan(v)
            cols.append(torch.where(gap, self.missing[i], f(torch.nan_to_num(v))))
        cols += [e(x_cat[:, i]) for i, e in enumerate(self.cat)]
        return torch.stack(cols, dim=1)

    def forward(self, x_num, x_cat, usable=None):
        x = self.tokens(x_num, x_cat)
        for layer in self.layers:
            x = layer(x, usable)
        return self.head(x[:, 0])


@torch.no_grad()
def predict_with_context(model, num, cat, ctx_num, ctx_cat):
    """Rows to predict see the context rows (training data) only, not each other."""
    model.eval()
    usable = torch.cat([torch.zeros(len(num), dtype=torch.bool), torch.ones(len(ctx_num), dtype=torch.bool)])
    out = model(torch.cat([num, ctx_num]), torch.cat([cat, ctx_cat]), usable)
    return out[:len(num)].softmax(-1)


if __name__ == "__main__":
    net = Saint(3, [4, 5])
    num, cat = torch.randn(6, 3), torch.randint(0, 4, (6, 2))
    num[0, 1] = float("nan")
    print(predict_with_context(net, num[:2], cat[:2], num[2:], cat[2:]))
