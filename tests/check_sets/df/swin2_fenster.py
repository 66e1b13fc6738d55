import math

import torch
from torch import nn


class FensterBlock(nn.Module):
    """Swin-V2-Block: Kosinus-Aehnlichkeit mit gelernter Temperatur, verschobene Fenster.

    Eingabe und Ausgabe: (B, H, W, C); H und W durch `fenster` teilbar.
    """

    def __init__(self, dim, aufloesung=(8, 8), koepfe=2, fenster=4, versatz=2):
        super().__init__()
        self.koepfe, self.m, self.versatz = koepfe, fenster, versatz
        self.qkv = nn.Linear(dim, 3 * dim)
        self.aus = nn.Linear(dim, dim)
        self.log_temp = nn.Parameter(torch.full((koepfe, 1, 1), math.log(10.0)))
        self.lage_mlp = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, koepfe, bias=False))
        self.norm = nn.LayerNorm(dim)
        r = torch.arange(fenster)
        punkte = torch.stack(torch.meshgrid(r, r, indexing="ij"), -1).reshape(-1, 2)
        abstand = (punkte[:, None] - punkte[None]).float()
        abstand = abstand.sign() * torch.log2(1 + abstand.abs() * 8 / max(fenster - 1, 1)) / 3
        self.register_buffer("abstand", abstand)
        H, W = aufloesung
        zone = torch.zeros(H, W)
        if versatz:
            schnitte = (slice(0, -fenster), slice(-fenster, -versatz), slice(-versatz, None))
            for n, (a, b) in enumerate((a, b) for a in schnitte for b in schnitte):
                zone[a, b] = n
        zone = self.zerlegen(zone[None, :, :, None]).squeeze(-1)
        self.register_buffer("erlaubt", zone[:, :, None] == zone[:, None, :])

    def zerlegen(self, x):
        B, H, W, C = x.shape
        m = self.m
        return x.view(B, H // m, m, W // m, m, C).transpose(2, 3).reshape(-1, m * m, C)

    def forward(self, x):
        B, H, W, C = x.shape
        m, s = self.m, self.versatz
        y = self.zerlegen(torch.roll(x, (-s, -s), (1, 2)))
        n = y.shape[0]
        q, k, v = self.qkv(y).view(n, m * m, 3, self.koepfe, -1).permute(2, 0, 3, 1, 4)
        q, k = nn.functional.normalize(q, dim=-1), nn.functional.normalize(k, dim=-1)
        w = q @ k.transpose(-1, -2) * self.log_temp.clamp(max=math.log(100.0)).exp()
        w = w + 16 * torch.sigmoid(self.lage_mlp(self.abstand)).permute(2, 0, 1)
        erlaubt = self.erlaubt.repeat(B, 1, 1).unsqueeze(1)
        w = w.masked_fill(~erlaubt, float("-inf")).softmax(-1)
        y = self.aus((w @ v).transpose(1, 2).reshape(n, m * m, C))
        y = y.view(B, H // m, W // m, m, m, C).transpose(2, 3).reshape(B, H, W, C)
        return x + self.norm(torch.roll(y, (s, s), (1, 2)))
