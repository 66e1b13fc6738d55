"""Graphormer, small: all nodes of a (padded) molecule see each other, with a
learned bias for the length of the shortest path.

``GrphLayer(D, heads, max_spd)``
    x    (B, N, D)
    spd  (B, N, N) long, shortest path lengths, clipped to max_spd by the caller
    real (B, N) float, 1.0 = atom, 0.0 = padding: padding contributes nothing to
         the atoms, i.e. it gets weight 0
logit[h,i,j] = q_i . k_j / sqrt(D/heads) + bias[h, spd_ij], softmax over j among
the atoms.  Pre-norm, residual, GELU feed-forward.  Returns (B, N, D).
"""
import torch
import torch.nn as nn


class GrphLayer(nn.Module):
    def __init__(self, D, heads, max_spd=20):
        super().__init__()
        self.heads = heads
        self.ln_a, self.ln_f = nn.LayerNorm(D), nn.LayerNorm(D)
        self.lin_q, self.lin_k, self.lin_v = (nn.Linear(D, D) for _ in range(3))
        self.lin_o = nn.Linear(D, D)
        self.spd_bias = nn.Embedding(max_spd + 1, heads)
        self.ffn = nn.Sequential(nn.Linear(D, D), nn.GELU(), nn.Linear(D, D))

    def forward(self, x, spd, real):
        B, N, D = x.shape
        H = self.heads
        y = self.ln_a(x)
        q = self.lin_q(y).reshape(B, N, H, D // H).permute(0, 2, 1, 3)
        k = self.lin_k(y).reshape(B, N, H, D // H).permute(0, 2, 3, 1)
        v = self.lin_v(y).reshape(B, N, H, D // H).permute(0, 2, 1, 3)
        a = torch.matmul(q, k) / q.size(1) ** 0.5
        a = a + self.spd_bias(spd).permute(0, 3, 1, 2)
        a = a * real[:, None, None, :]
        a = torch.softmax(a, dim=-1)
        y = torch.matmul(a, v).permute(0, 2, 1, 3).reshape(B, N, D)
        x = x + self.lin_o(y)
        return x + self.ffn(self.ln_f(x))
