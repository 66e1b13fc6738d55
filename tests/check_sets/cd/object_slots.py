"""Slot attention for tracking objects through a video (SAVi-like corrector).

Slots compete for the pixels: the softmax runs over the *slots*, and each slot
then takes the mean of the pixel values with its weights renormalised over the
pixels (Locatello et al. 2020, Algorithm 1, epsilon 1e-8 added before
renormalising).  The slots of frame t start from those of frame t-1, so a slot
keeps following one object.
"""
import torch
import torch.nn as nn


class SlotTracker(nn.Module):
    def __init__(self, n_slots=4, slot_dim=24, feat_dim=16, iters=2, eps=1e-8):
        super().__init__()
        self.iters = iters
        self.eps = eps
        self.scale = slot_dim ** -0.5
        self.init = nn.Parameter(torch.randn(n_slots, slot_dim))
        self.norm_in = nn.LayerNorm(feat_dim)
        self.norm_slot = nn.LayerNorm(slot_dim)
        self.norm_mlp = nn.LayerNorm(slot_dim)
        self.k = nn.Linear(feat_dim, slot_dim, bias=False)
        self.v = nn.Linear(feat_dim, slot_dim, bias=False)
        self.q = nn.Linear(slot_dim, slot_dim, bias=False)
        self.gru = nn.GRUCell(slot_dim, slot_dim)
        self.mlp = nn.Sequential(nn.Linear(slot_dim, 48), nn.ReLU(), nn.Linear(48, slot_dim))

    def correct(self, slots, feats):
        """One frame. slots [B, S, D], feats [B, P, F] -> slots, masks [B, S, P]"""
        b, s, d = slots.shape
        feats = self.norm_in(feats)
        k, v = self.k(feats), self.v(feats)
        share = None
        for _ in range(self.iters):
            q = self.q(self.norm_slot(slots))
            logits = torch.einsum("bsd,bpd->bsp", q, k) * self.scale
            share = logits.softmax(dim=1)              # over slots
            w = share + self.eps
            w = w / w.sum(dim=2, keepdim=True)         # mean over pixels
            update = torch.einsum("bsp,bpd->bsd", w, v)
            slots = self.gru(update.reshape(-1, d), slots.reshape(-1, d)).view(b, s, d)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots, share

    def forward(self, video):
        """video [B, T, P, F] -> slots [B, T, S, D], masks [B, T, S, P]"""
        slots = self.init.unsqueeze(0).repeat(video.shape[0], 1, 1)
        all_slots, all_masks = [], []
        for frame in video.unbind(1):
            slots, masks = self.correct(slots, frame)
            all_slots.append(slots)
            all_masks.append(masks)
        return torch.stack(all_slots, 1), torch.stack(all_masks, 1)
