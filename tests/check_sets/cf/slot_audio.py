"""Slot attention over spectrogram patches: one slot per sound source.

The slots *compete* for each patch, so the softmax runs over the slots, and the
weights of a slot are then divided by their sum over the patches: a slot is
updated with a weighted mean.  Slots start from learned vectors instead of noise
(as in BO-QSA), which makes the layer deterministic.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SourceSlots(nn.Module):
    def __init__(self, num_slots=5, dim=32, in_dim=40, iters=3, hidden=64, eps=1e-8):
        super().__init__()
        self.iters, self.eps = iters, eps
        self.scale = dim ** -0.5
        self.slots0 = nn.Parameter(torch.randn(num_slots, dim))
        self.norm_in = nn.LayerNorm(in_dim)
        self.norm_slots = nn.LayerNorm(dim)
        self.norm_mlp = nn.LayerNorm(dim)
        self.k = nn.Linear(in_dim, dim, bias=False)
        self.v = nn.Linear(in_dim, dim, bias=False)
        self.q = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, patches):
        """patches (B, N, in_dim) -> slots (B, K, dim), shares (B, K, N).

        ``shares[b, :, n]`` says how patch n was divided among the slots in the
        last iteration; it sums to one over the slots.
        """
        B = patches.size(0)
        x = self.norm_in(patches)
        keys, values = self.k(x), self.v(x)
        slots = self.slots0.expand(B, -1, -1)

        for _ in range(self.iters):
            prev = slots
            q = self.q(self.norm_slots(slots))
            logits = torch.einsum("bkd,bnd->bkn", q, keys) * self.scale
            shares = F.softmax(logits, dim=1)
            mean_w = shares / (shares.sum(dim=-1, keepdim=True) + self.eps)
            updates = mean_w @ values
            slots = self.gru(updates.flatten(0, 1), prev.flatten(0, 1)).view_as(prev)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots, shares


class SourceSeparator(nn.Module):
    """Masks for a mixture spectrogram, one per slot: soft assignment of patches."""

    def __init__(self, **kw):
        super().__init__()
        self.slots = SourceSlots(**kw)

    def forward(self, spec, patches):
        # spec (B, N) magnitudes, patches (B, N, in_dim)
        _, shares = self.slots(patches)
        return spec.unsqueeze(1) * shares
