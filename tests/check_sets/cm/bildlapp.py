"""Bildklassning: en liten ViT för kvalitetskontroll av svetsfogar."""
import torch
import torch.nn as nn


class Uppmarksamhet(nn.Module):
    """Självuppmärksamhet med flera huvuden, (B, N, dim) -> (B, N, dim), utan mask."""

    def __init__(self, dim, huvuden):
        super().__init__()
        self.huvuden = huvuden
        self.skala = (dim // huvuden) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.ut = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.huvuden, C // self.huvuden).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        vikt = (q @ k.transpose(-2, -1) * self.skala).softmax(dim=-1)
        y = (vikt @ v).reshape(B, N, C)
        return self.ut(y)


class Bildlapp(nn.Module):
    """bild: (B, 1, S, S) gråskala -> logits (B, klasser)."""

    def __init__(self, sida=16, lapp=4, dim=24, huvuden=3, djup=2, klasser=4):
        super().__init__()
        self.lappar = nn.Conv2d(1, dim, lapp, stride=lapp)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, (sida // lapp) ** 2 + 1, dim) * 0.02)
        self.lager = nn.ModuleList(
            nn.ModuleList([
                nn.LayerNorm(dim), Uppmarksamhet(dim, huvuden),
                nn.LayerNorm(dim), nn.Sequential(nn.Linear(dim, 48), nn.GELU(), nn.Linear(48, dim)),
            ])
            for _ in range(djup)
        )
        self.norm = nn.LayerNorm(dim)
        self.huvud = nn.Linear(dim, klasser)

    def forward(self, bild):
        x = self.lappar(bild).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), dim=1) + self.pos
        for n1, upp, n2, mlp in self.lager:
            x = x + upp(n1(x))
            x = x + mlp(n2(x))
        return self.huvud(self.norm(x)[:, 0])
