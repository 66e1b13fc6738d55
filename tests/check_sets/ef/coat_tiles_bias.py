"""Relative attention on a small square map, CoAtNet style, for the
Kaggle leaf disease notebook.

RelAttention2d
    input / output (B, C, S, S), S fixed at construction
    score(i, j) = q_i . k_j / sqrt(d) + bias[head, row_i - row_j, col_i - col_j]
    The answer at pixel i is a weighted average of v_j over all pixels j
    (weights positive, sum over j equal to one).
"""
import torch
import torch.nn as nn


class RelAttention2d(nn.Module):
    def __init__(self, C=24, heads=3, S=4):
        super().__init__()
        self.h, self.S = heads, S
        self.qkv = nn.Conv2d(C, 3 * C, 1)
        self.proj = nn.Conv2d(C, C, 1)
        self.bias = nn.Parameter(torch.randn(heads, (2 * S - 1) ** 2) * 0.02)
        r = torch.arange(S)
        rows, cols = torch.meshgrid(r, r, indexing="ij")
        rows, cols = rows.flatten(), cols.flatten()
        dr = rows[:, None] - rows[None] + S - 1
        dc = cols[:, None] - cols[None] + S - 1
        self.register_buffer("index", dr * (2 * S - 1) + dc, persistent=False)

    def forward(self, img):
        B, C, S, _ = img.shape
        q, k, v = self.qkv(img).view(B, 3, self.h, C // self.h, S * S).unbind(1)
        logits = torch.einsum("bhdi,bhdj->bhij", q, k) / (C // self.h) ** 0.5
        logits = logits + self.bias[:, self.index]
        w = torch.softmax(logits, dim=2)
        out = torch.einsum("bhij,bhdj->bhdi", w, v)
        return self.proj(out.reshape(B, C, S, S))
