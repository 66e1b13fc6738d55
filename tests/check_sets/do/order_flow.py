"""Order-flow forecaster: causal attention with linear recency bias (ALiBi).

Events of the book are (B, L, F).  Head h = 1..n (n a power of two) has slope
    m_h = 2^(-8 h / n)          e.g. n = 4:  1/4, 1/16, 1/64, 1/256
and event i scores event j <= i with  q_i.k_j/sqrt(d) - m_h (i - j).
Later events are not visible.  Returns the predicted mid-price move (B, L).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def head_slopes(n):
    start = 2.0 ** (-8.0 / n)
    return torch.tensor([start ** h for h in range(n)])


class OrderFlowNet(nn.Module):
    def __init__(self, feats, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.inp = nn.Linear(feats, dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.move = nn.Linear(dim, 1)
        self.register_buffer("slopes", head_slopes(heads), persistent=False)

    def recency(self, L):
        i = torch.arange(L, device=self.slopes.device)
        ago = i[:, None] - i[None, :]
        bias = -self.slopes[:, None, None] * ago
        return bias.masked_fill(ago < 0, float("-inf"))              # (H, L, L)

    def forward(self, events):
        B, L, _ = events.shape
        x = self.inp(events)
        q, k, v = self.qkv(x).view(B, L, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.recency(L))
        x = x + self.out(y.permute(0, 2, 1, 3).flatten(2))
        return self.move(torch.relu(x)).squeeze(-1)
