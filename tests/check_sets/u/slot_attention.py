"""Object-centric learning with slot attention (Locatello et al., 2020)."""
import torch
import torch.nn as nn


class SlotAttention(nn.Module):
    """Slots compete for the inputs: the softmax is over slots, then each slot takes
    the weighted mean of the inputs.

    inputs: (B, N, dim) features; noise: (B, K, dim) or None. Returns (B, K, dim).
    """

    def __init__(self, num_slots=5, dim=16, iters=3, eps=1e-8, hidden=32):
        super().__init__()
        self.num_slots, self.iters, self.eps = num_slots, iters, eps
        self.scale = dim ** -0.5
        self.slots_mu = nn.Parameter(torch.randn(1, 1, dim))
        self.slots_log_sigma = nn.Parameter(torch.zeros(1, 1, dim))
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.norm_input = nn.LayerNorm(dim)
        self.norm_slots = nn.LayerNorm(dim)
        self.norm_pre_ff = nn.LayerNorm(dim)

    def forward(self, inputs, noise=None):
        b, n, d = inputs.shape
        mu = self.slots_mu.expand(b, self.num_slots, -1)
        if noise is None:
            noise = torch.randn_like(mu) if self.training else torch.linspace(
                -1, 1, self.num_slots * d, dtype=mu.dtype, device=mu.device).view(1, self.num_slots, d)
        slots = mu + self.slots_log_sigma.exp() * noise

        inputs = self.norm_input(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bid,bjd->bij", q, k) * self.scale
            attn = dots.softmax(dim=1) + self.eps
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, attn)
            slots = self.gru(updates.reshape(-1, d), prev.reshape(-1, d)).reshape(b, -1, d)
            slots = slots + self.mlp(self.norm_pre_ff(slots))
        return slots
