"""Row-wise attention for tabular data (SAINT style) with an ensemble of epochs.

Course project "tabular deep learning": each feature is embedded, the features of
a row attend to each other, and the row embedding is the mean over features. After
every epoch we evaluate on the validation split, go back to training and keep the
best checkpoint. Attention dropout (rate `p`) is meant for training only.
"""
import torch
import torch.nn.functional as F
from torch import nn


class ColumnAttention(nn.Module):
    def __init__(self, dim, heads, p):
        super().__init__()
        self.heads = heads
        self.dropout_p = p
        self.norm = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.to_qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        if not self.training:
            self.dropout_p = 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout_p)
        return x + self.to_out(y.transpose(1, 2).reshape(b, n, d))


class FeedForward(nn.Module):
    def __init__(self, dim, mult=2):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim * mult)
        self.down = nn.Linear(dim * mult, dim)

    def forward(self, x):
        a, g = self.up(self.norm(x)).chunk(2, dim=-1)
        return x + self.down(a * F.gelu(g))


class TabRowEncoder(nn.Module):
    """x: [rows, n_features] floats, already standardised -> logits [rows, n_classes]."""

    def __init__(self, n_features=6, n_classes=3, dim=16, heads=4, depth=2, p=0.3):
        super().__init__()
        self.w = nn.Parameter(torch.randn(n_features, dim))
        self.b = nn.Parameter(torch.randn(n_features, dim) * 0.1)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(nn.Sequential(ColumnAttention(dim, heads, p), FeedForward(dim)))
        self.out = nn.Linear(dim, n_classes)

    def forward(self, x):
        h = x[..., None] * self.w + self.b
        for layer in self.layers:
            h = layer(h)
        return self.out(h.mean(dim=1))


def fit(model, x, y, x_val, y_val, epochs=5, lr=3e-3):
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    best, kept = float("inf"), None
    for _ in range(epochs):
        model.train()
        for i in range(0, len(x), 32):
            loss = F.cross_entropy(model(x[i:i + 32]), y[i:i + 32])
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            val = F.cross_entropy(model(x_val), y_val).item()
        if val < best:
            best, kept = val, {n: t.clone() for n, t in model.state_dict().items()}
    model.load_state_dict(kept)
    return best


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(160, 6)
    y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).long() + (x[:, 3] > 1).long()
    print(fit(TabRowEncoder(), x[:128], y[:128], x[128:], y[128:]))
