"""fMRI parcels -> phenotype. Each head has its own small projection module, which
makes it easy to look at one head (plots in the paper use the returned weights)."""
import torch
import torch.nn as nn


class ParcelHead(nn.Module):
    def __init__(self, d_in, d_head, dropout):
        super().__init__()
        self.q = nn.Linear(d_in, d_head, bias=False)
        self.k = nn.Linear(d_in, d_head, bias=False)
        self.v = nn.Linear(d_in, d_head, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        s = self.q(x) @ self.k(x).transpose(-2, -1)
        a = torch.softmax(s / self.q.out_features ** 0.5, dim=-1)
        a = self.dropout(a)
        return a @ self.v(x), a


class ParcelAttention(nn.Module):
    """(B, parcels, d) -> (B, parcels, d), attention (B, heads, parcels, parcels)

    All heads are trained together with the output layer. The attention that is
    returned is a distribution over parcels: each row sums to one.
    """

    def __init__(self, d, heads, dropout=0.1):
        super().__init__()
        self.heads = [ParcelHead(d, d // heads, dropout) for _ in range(heads)]
        self.out = nn.Linear(d, d)

    def forward(self, x):
        ys, ws = zip(*(h(x) for h in self.heads))
        return self.out(torch.cat(ys, dim=-1)), torch.stack(ws, dim=1)


class BrainNet(nn.Module):
    def __init__(self, parcels=100, frames=120, d=32, heads=4, targets=3):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(1, 8, 9, stride=4), nn.ReLU(),
                                  nn.AdaptiveAvgPool1d(4), nn.Flatten())
        self.inp = nn.Linear(32, d)
        self.where = nn.Parameter(torch.randn(parcels, d) * 0.02)
        self.att = ParcelAttention(d, heads)
        self.norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, targets)

    def forward(self, bold):
        """bold (B, parcels, frames), z-scored"""
        B, P, T = bold.shape
        f = self.conv(bold.reshape(B * P, 1, T)).view(B, P, -1)
        x = self.inp(f) + self.where
        y, w = self.att(x)
        x = self.norm(x + y)
        return self.out(x.mean(1)), w


def network_summary(w, labels, n):
    """mean attention between functional networks, (n, n)"""
    a = w.mean((0, 1))
    m = torch.nn.functional.one_hot(labels, n).to(a.dtype)
    count = m.sum(0)
    return m.T @ a @ m / count[:, None]


def train(model, loader, epochs=5, lr=1e-3):
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    for _ in range(epochs):
        for bold, y in loader:
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(bold)[0], y)
            loss.backward()
            opt.step()
    return model
