"""Slot Attention (Locatello et al., NeurIPS 2020), Algorithm 1."""
import torch
from torch import nn


class SlotAttention(nn.Module):
    """Slots compete for the inputs.

    inputs (B, N, D), slots (B, K, D) initial slots -> (B, K, D) after ``iters`` rounds.

    In each round
        M[n, k]  = k(inputs)_n . q(slots)_k / sqrt(D)
        attn     = softmax of M over the SLOTS k   (every input spends one unit)
        W[n, k]  = (attn[n, k] + eps) / sum_n' (attn[n', k] + eps)
        update_k = sum_n W[n, k] v(inputs)_n       (weighted mean over the inputs)
    followed by a GRU step and a residual MLP.
    """

    def __init__(self, D, iters=3, hidden=64, eps=1e-8):
        super().__init__()
        self.iters, self.eps, self.scale = iters, eps, D ** -0.5
        self.norm_in, self.norm_slots, self.norm_mlp = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.to_q = nn.Linear(D, D, bias=False)
        self.to_k = nn.Linear(D, D, bias=False)
        self.to_v = nn.Linear(D, D, bias=False)
        self.gru = nn.GRUCell(D, D)
        self.mlp = nn.Sequential(nn.Linear(D, hidden), nn.ReLU(), nn.Linear(hidden, D))

    def forward(self, inputs, slots):
        B, K, D = slots.shape
        inputs = self.norm_in(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bkd,bnd->bkn", q, k) * self.scale
            attn = dots.softmax(dim=1) + self.eps
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bkn,bnd->bkd", attn, v)
            slots = self.gru(updates.reshape(B * K, D), prev.reshape(B * K, D)).view(B, K, D)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots
