"""Slot Attention (Locatello et al., NeurIPS 2020), re-typed from Algorithm 1 for a reading group.

The slots COMPETE for the inputs: the softmax runs over the slots, and afterwards every slot
takes the weighted MEAN of the inputs (weights divided by their sum over the inputs).
Slot initialisation is handed in, so the module is deterministic.
"""
import torch
from torch import nn


class Slots(nn.Module):
    def __init__(self, d_in, d, iters=3, eps=1e-8):
        super().__init__()
        self.t, self.eps, self.scale = iters, eps, d ** -0.5
        self.ln_x, self.ln_s, self.ln_m = nn.LayerNorm(d_in), nn.LayerNorm(d), nn.LayerNorm(d)
        self.k = nn.Linear(d_in, d, bias=False)
        self.v = nn.Linear(d_in, d, bias=False)
        self.q = nn.Linear(d, d, bias=False)
        self.gru = nn.GRUCell(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))

    def forward(self, x, slots):
        """x (B, N, d_in), slots (B, S, d) initial. -> slots (B, S, d), attn (B, N, S) of the last round,
        attn before the mean-normalisation: for every input it sums to 1 over the S slots."""
        B, S, d = slots.shape
        x = self.ln_x(x)
        k, v = self.k(x), self.v(x)
        for _ in range(self.t):
            prev = slots
            q = self.q(self.ln_s(slots))
            attn = torch.softmax(self.scale * torch.einsum("bnd,bsd->bns", k, q), dim=-1)
            w = attn + self.eps
            w = w / w.sum(dim=1, keepdim=True)
            upd = torch.einsum("bns,bnd->bsd", w, v)
            slots = self.gru(upd.reshape(B * S, d), prev.reshape(B * S, d)).view(B, S, d)
            slots = slots + self.mlp(self.ln_m(slots))
        return slots, attn
