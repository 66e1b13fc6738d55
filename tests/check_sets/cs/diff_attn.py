"""Differential attention (Ye et al., 2024), without the head-wise norm."""
import torch
import torch.nn as nn


class DiffAttention(nn.Module):
    """out = (softmax(q1 k1^T / sqrt(d)) - lam * softmax(q2 k2^T / sqrt(d))) v, causal.

    Each of the ``heads`` has two query/key parts of size d and a value of size 2d,
    with embed = heads * 2d.
    """

    def __init__(self, embed, heads, lam=0.3):
        super().__init__()
        self.h, self.d = heads, embed // heads // 2
        self.q_proj = nn.Linear(embed, embed, bias=False)
        self.k_proj = nn.Linear(embed, embed, bias=False)
        self.v_proj = nn.Linear(embed, embed, bias=False)
        self.o_proj = nn.Linear(embed, embed, bias=False)
        self.lam = nn.Parameter(torch.tensor(float(lam)))

    def forward(self, x):
        n, t, _ = x.shape
        q = self.q_proj(x).view(n, t, self.h, 2, self.d)
        k = self.k_proj(x).view(n, t, self.h, 2, self.d)
        v = self.v_proj(x).view(n, t, self.h, 2 * self.d)
        s = torch.einsum("bihcd,bjhcd->bchij", q, k) * self.d ** -0.5
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        a = s.masked_fill(future, float("-inf")).softmax(dim=-1)
        a = a[:, 0] - self.lam * a[:, 1]
        y = torch.einsum("bhij,bjhe->bihe", a, v)
        return self.o_proj(y.reshape(n, t, -1))
