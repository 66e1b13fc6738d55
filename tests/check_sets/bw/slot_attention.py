"""Slot Attention (Locatello et al., NeurIPS 2020), PyTorch port.

Slots compete for inputs: the softmax runs over the *slots*, and the weights are
then renormalised over the inputs, so that each slot takes a weighted mean.
"""
import torch
import torch.nn as nn


class SlotAttention(nn.Module):
    def __init__(self, num_slots=4, dim=24, iters=3, eps=1e-8, hidden_dim=48):
        super().__init__()
        self.num_slots = num_slots
        self.iters = iters
        self.eps = eps
        self.scale = dim ** -0.5

        self.slots_mu = nn.Parameter(torch.randn(1, 1, dim))
        self.slots_log_sigma = nn.Parameter(torch.zeros(1, 1, dim))

        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, hidden_dim),
            nn.ReLU(inplace=True),
            nn.Linear(hidden_dim, dim),
        )
        self.norm_input = nn.LayerNorm(dim)
        self.norm_slots = nn.LayerNorm(dim)
        self.norm_pre_ff = nn.LayerNorm(dim)

    def init_slots(self, inputs):
        b, _, d = inputs.shape
        mu = self.slots_mu.expand(b, self.num_slots, d)
        sigma = self.slots_log_sigma.exp().expand(b, self.num_slots, d)
        return mu + sigma * torch.randn_like(mu)

    def step(self, slots, k, v):
        b, n, d = slots.shape
        q = self.to_q(self.norm_slots(slots))
        dots = torch.einsum('bid,bjd->bij', q, k) * self.scale
        attn = dots.softmax(dim=1) + self.eps
        attn = attn / attn.sum(dim=-1, keepdim=True)
        updates = torch.einsum('bjd,bij->bid', v, attn)
        new = self.gru(updates.reshape(-1, d), slots.reshape(-1, d)).reshape(b, n, d)
        return new + self.mlp(self.norm_pre_ff(new)), attn

    def forward(self, inputs, slots=None):
        """inputs: [B, N, dim] features. Returns slots [B, S, dim] and the
        attention maps of the last iteration [B, S, N]."""
        if slots is None:
            slots = self.init_slots(inputs)
        x = self.norm_input(inputs)
        k, v = self.to_k(x), self.to_v(x)
        attn = None
        for _ in range(self.iters):
            slots, attn = self.step(slots, k, v)
        return slots, attn


if __name__ == '__main__':
    sa = SlotAttention()
    feats = torch.randn(2, 16, 24)
    slots, maps = sa(feats)
    print(slots.shape, maps.shape, maps.sum(-1)[0])
