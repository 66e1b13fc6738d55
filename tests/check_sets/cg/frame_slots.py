"""Object slots for the game-frame world model.

Slot attention (Locatello et al. 2020): the softmax runs over the *slots*, so the
slots compete for each patch; then the weights of each slot are normalised over
the patches (weighted mean) and a GRU updates the slot.  ``iters`` rounds.
Slots start from learned vectors, not from noise, so a replay is deterministic.
"""
import torch
from torch import nn


class FrameSlots(nn.Module):
    def __init__(self, n_slots: int = 4, dim: int = 24, iters: int = 3, hidden: int = 48,
                 eps: float = 1e-8):
        super().__init__()
        self.iters, self.eps = iters, eps
        self.scale = dim ** -0.5
        self.init = nn.Parameter(torch.randn(n_slots, dim))
        self.norm_in = nn.LayerNorm(dim)
        self.norm_slot = nn.LayerNorm(dim)
        self.norm_mlp = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(self, patches):
        b, n, d = patches.shape
        x = self.norm_in(patches)
        k, v = self.to_k(x), self.to_v(x)
        slots = self.init.expand(b, -1, -1)
        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slot(slots))
            logits = torch.einsum("bsd,bnd->bsn", q, k) * self.scale
            share = logits.softmax(dim=1) + self.eps      # over the slots
            mean = share / share.sum(dim=-1, keepdim=True)  # over the patches
            upd = torch.einsum("bsn,bnd->bsd", mean, v)
            slots = self.gru(upd.reshape(-1, d), prev.reshape(-1, d)).view(b, -1, d)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots, share


class PatchEncoder(nn.Module):
    """Frame [B, 3, H, W] -> slots, share of each patch."""

    def __init__(self, dim=24, patch=4, **kw):
        super().__init__()
        self.conv = nn.Conv2d(3, dim, patch, stride=patch)
        self.slots = FrameSlots(dim=dim, **kw)

    def forward(self, frame):
        f = self.conv(frame)
        return self.slots(f.flatten(2).transpose(1, 2))
