"""Object slots for the kitchen videos (after Locatello et al. 2020).

Slots compete for the pixels: for each input the weights over the slots sum to one; the update
of a slot is then the weighted *mean* of its inputs.
"""
import torch
import torch.nn as nn


class SlotAttention(nn.Module):
    def __init__(self, n_slots, dim, iters=3, eps=1e-8, hidden=48):
        super().__init__()
        self.n_slots, self.iters, self.eps = n_slots, iters, eps
        self.scale = dim ** -0.5
        self.mu = nn.Parameter(torch.randn(1, 1, dim) * 0.5)
        self.log_sigma = nn.Parameter(torch.zeros(1, 1, dim))
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.n_in, self.n_sl = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def init_slots(self, b, noise=None):
        if noise is None:
            noise = torch.randn(b, self.n_slots, self.mu.size(-1), device=self.mu.device)
        return self.mu + self.log_sigma.exp() * noise

    def attend(self, slots, k, v):
        q = self.to_q(self.n_sl(slots))
        dots = torch.einsum("bsd,bnd->bsn", q, k) * self.scale
        share = dots.softmax(dim=1) + self.eps
        mean_w = share / share.sum(dim=-1, keepdim=True)
        return torch.einsum("bsn,bnd->bsd", mean_w, v), share

    def forward(self, x, slots=None):
        b, n, d = x.shape
        x = self.n_in(x)
        k, v = self.to_k(x), self.to_v(x)
        slots = self.init_slots(b) if slots is None else slots
        share = None
        for _ in range(self.iters):
            upd, share = self.attend(slots, k, v)
            slots = self.gru(upd.reshape(-1, d), slots.reshape(-1, d)).view(b, -1, d)
            slots = slots + self.mlp(slots)
        return slots, share


class VideoSlots(nn.Module):
    def __init__(self, n_slots=4, dim=24):
        super().__init__()
        self.enc = nn.Conv2d(3, dim, 5, stride=4, padding=2)
        self.sa = SlotAttention(n_slots, dim)

    def forward(self, clip):                     # [B, T, 3, H, W]
        slots, per_frame = None, []
        for t in range(clip.size(1)):
            fmap = self.enc(clip[:, t]).flatten(2).transpose(1, 2)
            slots, _ = self.sa(fmap, slots)
            per_frame.append(slots)
        return torch.stack(per_frame, 1)
