"""Pair-representation block for a small structure predictor."""
import torch
from torch import nn


class StartingNodeTriangle(nn.Module):
    """Edge (i, j) gathers from all edges (i, k) that leave the same residue i.

    pair          (B, N, N, C)
    residue_mask  (B, N), 1 for a real residue and 0 for padding; optional
    returns       (B, N, N, C); entries that touch a padded residue are zero
    """

    def __init__(self, c_pair=24, n_head=3, c_head=8):
        super().__init__()
        self.h, self.c = n_head, c_head
        self.norm = nn.LayerNorm(c_pair)
        self.edge_bias = nn.Linear(c_pair, n_head, bias=False)
        self.to_qkv = nn.Linear(c_pair, 3 * n_head * c_head, bias=False)
        self.gate = nn.Linear(c_pair, n_head * c_head)
        self.out = nn.Linear(n_head * c_head, c_pair)

    def forward(self, pair, residue_mask=None):
        B, N = pair.shape[:2]
        z = self.norm(pair)
        q, k, v = self.to_qkv(z).view(B, N, N, 3, self.h, self.c).unbind(3)
        logits = torch.einsum("bijhc,bikhc->bhijk", q * self.c ** -0.5, k)
        logits = logits + self.edge_bias(z).permute(0, 3, 1, 2).unsqueeze(2)  # edge (j, k)
        if residue_mask is not None:
            pad = (residue_mask == 0)[:, None, None, None, :]
            logits = logits.masked_fill(pad, torch.finfo(logits.dtype).min)
        w = logits.softmax(-1)
        o = torch.einsum("bhijk,bikhc->bijhc", w, v).flatten(-2)
        o = self.out(torch.sigmoid(self.gate(z)) * o)
        if residue_mask is not None:
            m = residue_mask.to(o.dtype)
            o = o * (m[:, :, None] * m[:, None, :]).unsqueeze(-1)
        return o
