"""Slot attention for video (object discovery), slots carried between frames."""
import torch
from torch import nn


class SlotAttention(nn.Module):
    """Locatello et al. 2020.

    Slots compete: the softmax runs over the SLOTS for every input, and each
    slot then takes the weighted MEAN of its inputs (weights renormalised over
    the inputs).  `forward(x)` starts from learnt slots; `forward(x, slots)`
    continues from the slots of the frame before.
    """

    def __init__(self, n_slots, dim, iters=3, hidden=64, eps=1e-8):
        super().__init__()
        self.n_slots, self.iters, self.eps = n_slots, iters, eps
        self.scale = dim**-0.5
        self.init = nn.Parameter(torch.randn(1, n_slots, dim))
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.ni, self.ns = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def step(self, slots, k, v):
        b, s, d = slots.shape
        q = self.q(self.ns(slots))
        logits = torch.einsum("bnd,bsd->bns", k, q) * self.scale
        attn = logits.softmax(dim=2) + self.eps
        w = attn / attn.sum(dim=1, keepdim=True)
        upd = torch.einsum("bns,bnd->bsd", w, v)
        slots = self.gru(upd.reshape(-1, d), slots.reshape(-1, d)).view(b, s, d)
        return slots + self.mlp(slots), attn

    def forward(self, x, slots=None):
        """x [B, N, dim] -> slots [B, S, dim], masks [B, S, N]."""
        x = self.ni(x)
        k, v = self.k(x), self.v(x)
        slots = self.init.expand(x.shape[0], -1, -1) if slots is None else slots
        attn = None
        for _ in range(self.iters):
            slots, attn = self.step(slots, k, v)
        return slots, attn.transpose(1, 2)


class VideoSlots(nn.Module):
    def __init__(self, dim=32, n_slots=4):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(3, dim, 5, 2, 2), nn.ReLU(), nn.Conv2d(dim, dim, 5, 2, 2), nn.ReLU()
        )
        self.corr = SlotAttention(n_slots, dim)
        self.pred = nn.TransformerEncoderLayer(dim, 4, 64, batch_first=True, dropout=0.0)
        self.dec = nn.Linear(dim, 4)

    def forward(self, video):
        """video [B, T, 3, H, W] -> masks [B, T, S, N], slot codes [B, T, S, 4]."""
        slots, masks, codes = None, [], []
        for frame in video.unbind(1):
            f = self.cnn(frame).flatten(2).transpose(1, 2)
            slots, m = self.corr(f, slots)
            masks.append(m)
            codes.append(self.dec(slots))
            slots = self.pred(slots)
        return torch.stack(masks, 1), torch.stack(codes, 1)
