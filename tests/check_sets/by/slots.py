"""Slot attention (Locatello et al., NeurIPS 2020), Algorithm 1.

Slots compete for the inputs: the softmax runs over the SLOTS, and after that
the weights of each slot are divided by their sum over the inputs (weighted
mean, with a small epsilon).  The initial slots may be passed in, else they are
sampled from a learned Gaussian.
"""
import torch
from torch import nn


class SlotAttention(nn.Module):
    def __init__(self, num_slots=4, dim=16, iters=3, eps=1e-8, hidden_dim=32):
        super().__init__()
        self.num_slots = num_slots
        self.iters = iters
        self.eps = eps
        self.scale = dim ** -0.5

        self.slots_mu = nn.Parameter(torch.randn(1, 1, dim))
        self.slots_logsigma = nn.Parameter(torch.zeros(1, 1, dim))

        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)

        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, hidden_dim), nn.ReLU(inplace=True), nn.Linear(hidden_dim, dim)
        )
        self.norm_input = nn.LayerNorm(dim)
        self.norm_slots = nn.LayerNorm(dim)
        self.norm_pre_ff = nn.LayerNorm(dim)

    def sample(self, batch, device, dtype):
        mu = self.slots_mu.expand(batch, self.num_slots, -1)
        sigma = self.slots_logsigma.exp().expand(batch, self.num_slots, -1)
        return mu + sigma * torch.randn(mu.shape, device=device, dtype=dtype)

    def forward(self, inputs, slots=None):
        b, n, d = inputs.shape
        if slots is None:
            slots = self.sample(b, inputs.device, inputs.dtype)
        inputs = self.norm_input(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)

        for _ in range(self.iters):
            slots_prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bid,bjd->bij", q, k) * self.scale   # slots x inputs
            attn = dots.softmax(dim=1) + self.eps
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, attn)
            slots = self.gru(updates.reshape(-1, d), slots_prev.reshape(-1, d))
            slots = slots.reshape(b, -1, d)
            slots = slots + self.mlp(self.norm_pre_ff(slots))
        return slots
