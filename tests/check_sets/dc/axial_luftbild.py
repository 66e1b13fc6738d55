# Segmentierung von Luftbildern: erst Zeilen, dann Spalten.
import torch
import torch.nn as nn
import torch.nn.functional as F


class Achse(nn.Module):
    """Cosine attention along the last-but-one axis of (..., L, C) with one learned temperature per head."""

    def __init__(self, C, koepfe):
        super().__init__()
        self.koepfe = koepfe
        self.proj = nn.Linear(C, 3 * C, bias=False)
        self.aus = nn.Linear(C, C)
        self.log_t = nn.Parameter(torch.full((koepfe, 1, 1), 2.3))

    def forward(self, x):
        *vorn, L, C = x.shape
        q, k, v = (
            t.reshape(*vorn, L, self.koepfe, -1).transpose(-2, -3)
            for t in self.proj(x).chunk(3, dim=-1)
        )
        s = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2)
        s = s * self.log_t.clamp(max=4.6).exp()
        y = s.softmax(-1) @ v
        return self.aus(y.transpose(-2, -3).reshape(*vorn, L, C))


class LuftbildBlock(nn.Module):
    """x: (B, C, H, W), gleiche Form zurück."""

    def __init__(self, C=32, koepfe=4):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(1, C), nn.GroupNorm(1, C)
        self.zeile, self.spalte = Achse(C, koepfe), Achse(C, koepfe)

    def forward(self, x):
        h = self.n1(x).permute(0, 2, 3, 1)          # B H W C
        x = x + self.zeile(h).permute(0, 3, 1, 2)
        h = self.n2(x).permute(0, 3, 2, 1)          # B W H C
        return x + self.spalte(h).permute(0, 3, 2, 1)
