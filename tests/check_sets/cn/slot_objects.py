"""Slot Attention (Locatello et al. 2020), sampler-free: the slots start from learned
vectors instead of noise, so the result is repeatable.

The softmax runs over the SLOTS (slots compete for every input); afterwards each slot
takes the weighted MEAN of the inputs, i.e. its weights are divided by their sum over
the inputs.
"""
import torch
from torch import nn


class SlotAttention(nn.Module):
    def __init__(self, num_slots=4, dim=32, iters=3, eps=1e-8, hidden=64):
        super().__init__()
        self.iters, self.eps = iters, eps
        self.scale = dim ** -0.5
        self.start = nn.Parameter(torch.randn(1, num_slots, dim))
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.norm_in = nn.LayerNorm(dim)
        self.norm_slot = nn.LayerNorm(dim)
        self.norm_mlp = nn.LayerNorm(dim)

    def forward(self, inputs):
        """inputs [B, N, dim] -> (slots [B, S, dim], masks [B, S, N])

        masks: how the inputs are shared out, sum over S is 1.
        """
        b, n, d = inputs.shape
        x = self.norm_in(inputs)
        k, v = self.to_k(x), self.to_v(x)
        slots = self.start.expand(b, -1, -1)
        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slot(slots))
            dots = torch.einsum("bsd,bnd->bsn", q, k) * self.scale
            share = dots.softmax(dim=1)
            w = share + self.eps
            w = w / w.sum(dim=2, keepdim=True)
            upd = torch.einsum("bsn,bnd->bsd", w, v)
            slots = self.gru(upd.reshape(-1, d), prev.reshape(-1, d)).view(b, -1, d)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots, share


if __name__ == "__main__":
    m = SlotAttention()
    s, a = m(torch.randn(2, 25, 32))
    print(s.shape, a.sum(1).mean())
