"""Langmuir probe array in a tokamak edge: the probes correct each other.

ProbeArray(dim, coils):  dim features per probe, coils = attention heads

forward(reading, dead)
    reading  (B, P, dim)   one shot per row, P probes
    dead     (B, P) bool   True = the probe burnt out in this shot: its reading is
                           garbage and must get weight zero from every probe.
                           False = the probe works. At least one works.
returns (B, P, dim)

Per coil: logits q.k / sqrt(dim / coils), softmax over the working probes.
"""
import torch
from torch import nn


class ProbeArray(nn.Module):
    def __init__(self, dim, coils):
        super().__init__()
        self.coils = coils
        self.flux = nn.Linear(dim, dim)
        self.field = nn.Linear(dim, dim)
        self.current = nn.Linear(dim, dim)
        self.joint = nn.Linear(dim, dim)

    def wind(self, t):
        B, P, dim = t.shape
        return t.view(B, P, self.coils, dim // self.coils).permute(0, 2, 1, 3)

    def forward(self, reading, dead):
        q = self.wind(self.flux(reading))
        k = self.wind(self.field(reading))
        v = self.wind(self.current(reading))
        coupling = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5          # (B, coils, P, P)
        lowest = torch.finfo(coupling.dtype).min
        usable = dead[:, None, None, :].eq(False)
        coupling = coupling.masked_fill(usable, lowest)
        share = torch.softmax(coupling, dim=-1)
        y = (share @ v).permute(0, 2, 1, 3).flatten(2)
        return self.joint(y)
