"""Stroomverbruik voorspellen: transformer over de laatste uren van de slimme meter.

meting  (B, T, F)    uren, F kenmerken per uur (vooraan aangevuld met nullen)
geldig  (B, T) bool  True = er is een echte meting, False = aanvulling; het laatste
                     uur is altijd echt
uit     (B, 24)      verwacht verbruik voor de komende 24 uur

Elk uur kijkt naar alle ECHTE uren (ook latere, het is een encoder); aanvulling telt niet
mee.  De voorspelling komt uit het laatste uur.
"""
import torch
from torch import nn


class StroomBlok(nn.Module):
    def __init__(self, D, H):
        super().__init__()
        self.att = nn.MultiheadAttention(embed_dim=D, num_heads=H, batch_first=True)
        self.n1 = nn.LayerNorm(D)
        self.n2 = nn.LayerNorm(D)
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.ReLU(), nn.Linear(2 * D, D))

    def forward(self, x, geldig):
        y, _ = self.att(x, x, x, key_padding_mask=geldig)
        x = self.n1(x + y)
        return self.n2(x + self.mlp(x))


class StroomNet(nn.Module):
    def __init__(self, F, D=32, H=4, lagen=2, T=48):
        super().__init__()
        self.inn = nn.Linear(F, D)
        self.pos = nn.Parameter(torch.randn(T, D) * 0.02)
        self.blok = nn.ModuleList([StroomBlok(D, H) for _ in range(lagen)])
        self.uit = nn.Linear(D, 24)

    def forward(self, meting, geldig):
        x = self.inn(meting) + self.pos[: meting.shape[1]]
        for b in self.blok:
            x = b(x, geldig)
        return self.uit(x[:, -1])
