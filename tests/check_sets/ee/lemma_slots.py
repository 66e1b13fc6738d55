"""Reinflection: each morphological slot looks at the letters of the stem.

LemmaReader(d_slot, d_stem, d_mid)

forward(slot, stem, letters)
    slot     (B, T, d_slot)   case, number, person ... one vector per slot
    stem     (B, S, d_stem)   encoded letters of the stem, zero-padded at the end
    letters  (B,) long        number of letters of each stem, >= 1
returns
    context  (B, T, d_stem)
    weight   (B, T, S)        sums to 1 over the letters of the stem

Score of Bahdanau et al. (2015):  e_ts = v . tanh(W slot_t + U stem_s), softmax over s.
"""
import torch
from torch import nn


class LemmaReader(nn.Module):
    def __init__(self, d_slot, d_stem, d_mid):
        super().__init__()
        self.W = nn.Linear(d_slot, d_mid, bias=False)
        self.U = nn.Linear(d_stem, d_mid)
        self.v = nn.Linear(d_mid, 1, bias=False)

    def energy(self, slot, stem):
        mid = self.W(slot)[:, :, None, :] + self.U(stem)[:, None, :, :]     # (B, T, S, d_mid)
        return self.v(mid).squeeze(-1)

    def forward(self, slot, stem, letters):
        e = self.energy(slot, stem)
        pos = torch.arange(stem.size(1), device=stem.device)
        beyond = pos[None, None, :] >= letters[:, None, None]
        weight = torch.softmax(e.masked_fill(beyond, float("-inf")), dim=2)
        return torch.bmm(weight, stem), weight
