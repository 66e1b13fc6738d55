import torch
from torch import nn


class MAB(nn.Module):
    """H = LN(Q + Multihead(Q, K, K)), out = LN(H + relu(fc(H)))"""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.fc = (nn.Linear(dim, dim) for _ in range(4))
        self.ln0, self.ln1 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, Q, K):
        q, k, v = self.q(Q), self.k(K), self.v(K)
        parts = []
        width = q.shape[-1] // self.heads
        for h in range(self.heads):
            s = slice(h * width, (h + 1) * width)
            w = torch.softmax(q[..., s] @ k[..., s].transpose(1, 2) / width ** 0.5, dim=2)
            parts.append(w @ v[..., s])
        H = self.ln0(q + torch.cat(parts, dim=-1))
        return self.ln1(H + torch.relu(self.fc(H)))


class ISAB(nn.Module):
    """Induced set attention block: X (B, n, dim) through m induced points."""

    def __init__(self, dim=8, heads=2, m=3):
        super().__init__()
        self.I = nn.Parameter(torch.randn(1, m, dim))
        self.mab0, self.mab1 = MAB(dim, heads), MAB(dim, heads)

    def forward(self, X):
        H = self.mab0(self.I.expand(X.shape[0], -1, -1), X)
        return self.mab1(X, H)
