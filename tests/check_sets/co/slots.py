"""Object-centric learning with slot attention (Locatello et al. 2020).

Slots are initialised from learned vectors instead of from noise (as BO-QSA does), so the module is deterministic.
"""
import torch
from torch import nn


class SlotAttention(nn.Module):
    """inputs [b, n, d_in] -> slots [b, k, d].

    The softmax runs over the SLOTS, they compete for the inputs; afterwards the weights of
    each slot are normalised over the inputs so that the update is a weighted mean.
    """

    def __init__(self, num_slots=5, d_in=20, d=16, iters=3, hidden=32, eps=1e-8):
        super().__init__()
        self.num_slots, self.iters, self.eps = num_slots, iters, eps
        self.scale = d ** -0.5
        self.init = nn.Parameter(torch.randn(1, num_slots, d) * d ** -0.5)
        self.to_q = nn.Linear(d, d, bias=False)
        self.to_k = nn.Linear(d_in, d, bias=False)
        self.to_v = nn.Linear(d_in, d, bias=False)
        self.gru = nn.GRUCell(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, d))
        self.norm_in = nn.LayerNorm(d_in)
        self.norm_slots = nn.LayerNorm(d)
        self.norm_mlp = nn.LayerNorm(d)

    def forward(self, inputs):
        b = inputs.shape[0]
        feats = self.norm_in(inputs)
        k, v = self.to_k(feats), self.to_v(feats)
        slots = self.init.expand(b, -1, -1)

        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bid,bjd->bij", q, k) * self.scale   # [b, slots, n]
            attn = dots.softmax(dim=1) + self.eps
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, attn)
            slots = self.gru(updates.reshape(-1, updates.size(-1)), prev.reshape(-1, prev.size(-1)))
            slots = slots.view(b, self.num_slots, -1)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots
