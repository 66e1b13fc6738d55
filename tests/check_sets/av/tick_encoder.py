"""Order-book encoder; used both in training and (with .eval()) in the replay service."""
import torch
from torch import nn
import torch.nn.functional as F


class TickAttention(nn.Module):
    """Causal attention over ticks with dropout on the weights while training."""

    def __init__(self, dim: int, heads: int, p: float = 0.2):
        super().__init__()
        self.heads = heads
        self.p = p
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        if not self.training:
            self.p = 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p, is_causal=True)
        return self.out(y.permute(0, 2, 1, 3).reshape(n, t, c))


class TickBlock(nn.Module):
    def __init__(self, dim, heads, p):
        super().__init__()
        self.pre = nn.LayerNorm(dim)
        self.att = TickAttention(dim, heads, p)
        self.post = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Dropout(p), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.att(self.pre(x))
        return x + self.ff(self.post(x))


class BookEncoder(nn.Module):
    def __init__(self, levels=10, dim=32, heads=4, depth=2, p=0.2):
        super().__init__()
        self.inp = nn.Linear(4 * levels, dim)
        self.blocks = nn.ModuleList(TickBlock(dim, heads, p) for _ in range(depth))
        self.head = nn.Linear(dim, 3)

    def forward(self, book):
        x = self.inp(torch.sign(book) * torch.log1p(book.abs()))
        for b in self.blocks:
            x = b(x)
        return self.head(x[:, -1])


def fit(model, loader, val, epochs, lr=1e-3):
    opt = torch.optim.AdamW(model.parameters(), lr)
    for _ in range(epochs):
        model.train()
        for x, y in loader:
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            acc = [(model(x).argmax(-1) == y).float().mean() for x, y in val]
        yield float(torch.stack(acc).mean())
