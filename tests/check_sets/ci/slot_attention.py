"""Slot Attention (Locatello et al. 2020).

Inputs (B, N, D) compete: the softmax runs over the *slots*, so every input spreads a
mass of one over the slots; afterwards each slot takes the weighted mean over inputs.
"""
import torch
import torch.nn as nn


class SlotAttention(nn.Module):
    """inputs (B, N, D) and start slots (B, K, D) -> slots (B, K, D), attn (B, K, N)."""

    def __init__(self, dim=16, iters=3, eps=1e-8, hidden=32):
        super().__init__()
        self.iters, self.eps = iters, eps
        self.scale = dim ** -0.5
        self.norm_in = nn.LayerNorm(dim)
        self.norm_slots = nn.LayerNorm(dim)
        self.norm_mlp = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, inputs, slots):
        B, K, D = slots.shape
        inputs = self.norm_in(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bkd,bnd->bkn", q, k) * self.scale
            attn = dots.softmax(dim=1)                              # competition over slots
            mean_w = attn + self.eps
            mean_w = mean_w / mean_w.sum(dim=-1, keepdim=True)      # weighted mean over inputs
            updates = torch.einsum("bkn,bnd->bkd", mean_w, v)
            slots = self.gru(updates.reshape(-1, D), prev.reshape(-1, D)).view(B, K, D)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots, attn
