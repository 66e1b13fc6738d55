"""Slot attention for parsing screenshots into UI objects (Locatello et al. 2020)."""
import torch
import torch.nn as nn


class SlotParser(nn.Module):
    """inputs [B, N, C] -> slots [B, K, D].

    Slots compete for pixels: the softmax runs over the *slots*. The result is
    then normalised over the pixels (weighted mean), as in the paper.
    `valid` [B, N]: True = pixel belongs to the screenshot, False = letterbox.
    """

    def __init__(self, in_dim, slot_dim, n_slots=5, n_iters=3, hidden=32, eps=1e-8):
        super().__init__()
        self.n_slots, self.n_iters, self.eps = n_slots, n_iters, eps
        self.scale = slot_dim ** -0.5
        self.mu = nn.Parameter(torch.randn(1, n_slots, slot_dim))   # learned start, no sampling
        self.norm_in = nn.LayerNorm(in_dim)
        self.norm_slot = nn.LayerNorm(slot_dim)
        self.norm_mlp = nn.LayerNorm(slot_dim)
        self.k = nn.Linear(in_dim, slot_dim, bias=False)
        self.v = nn.Linear(in_dim, slot_dim, bias=False)
        self.q = nn.Linear(slot_dim, slot_dim, bias=False)
        self.gru = nn.GRUCell(slot_dim, slot_dim)
        self.mlp = nn.Sequential(nn.Linear(slot_dim, hidden), nn.ReLU(), nn.Linear(hidden, slot_dim))

    def step(self, slots, k, v, valid):
        B, K, D = slots.shape
        q = self.q(self.norm_slot(slots))
        logits = torch.einsum("bnd,bkd->bnk", k, q) * self.scale
        share = logits.softmax(dim=-1)
        if valid is not None:
            share = share * valid.unsqueeze(-1).to(share.dtype)
        share = share + self.eps * (1 if valid is None else valid.unsqueeze(-1).to(share.dtype))
        w = share / share.sum(dim=1, keepdim=True)
        upd = torch.einsum("bnk,bnd->bkd", w, v)
        slots = self.gru(upd.reshape(B * K, D), slots.reshape(B * K, D)).view(B, K, D)
        return slots + self.mlp(self.norm_mlp(slots)), share

    def forward(self, inputs, valid=None):
        x = self.norm_in(inputs)
        k, v = self.k(x), self.v(x)
        slots = self.mu.expand(inputs.size(0), -1, -1)
        for _ in range(self.n_iters):
            slots, share = self.step(slots, k, v, valid)
        return slots


def count_objects(share, thr=0.5):
    """How many slots own at least one pixel for more than thr."""
    return (share.amax(dim=1) > thr).sum(dim=-1)
