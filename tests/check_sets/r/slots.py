import torch
from torch import nn


class SlotAttention(nn.Module):
    """Object-centric learning with slot attention (Locatello et al. 2020).  inputs (B, N, D) -> slots (B, K, D).

    Slots compete: the softmax runs over the SLOTS, which are the queries, and each slot then takes the weighted mean
    (not the sum) of the inputs.  Start slots are learned and not sampled.
    """

    def __init__(self, num_slots, dim, iters=3, eps=1e-8):
        super().__init__()
        self.iters, self.eps, self.scale = iters, eps, dim**-0.5
        self.slots = nn.Parameter(torch.randn(1, num_slots, dim))
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.norm_input, self.norm_slots = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, inputs):
        b, _, d = inputs.shape
        slots = self.slots.expand(b, -1, -1)
        inputs = self.norm_input(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)

        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bid,bjd->bij", q, k) * self.scale
            attn = dots.softmax(dim=1) + self.eps
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, attn)
            slots = self.gru(updates.reshape(-1, d), prev.reshape(-1, d)).view(b, -1, d)
            slots = slots + self.mlp(slots)
        return slots
