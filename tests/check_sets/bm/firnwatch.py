# -*- coding: utf-8 -*-
"""Spaltenerkennung auf Gletschern (Sentinel-2-Kacheln, 4 Kanäle).

Ein Block im Stil von Swin V2: Kosinus-Ähnlichkeit statt Skalarprodukt, eine
gelernte Temperatur je Kopf, kontinuierlicher Lage-Bias aus einem kleinen MLP.
Bei ``versatz > 0`` wird die Kachel zyklisch verschoben; Pixel, die nur durch
das Umklappen Nachbarn geworden sind, dürfen sich nicht sehen.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

MAX_LOGIT = math.log(100.0)


def in_fenster(x, m):
    """[B, H, W, C] -> [B * nF, m*m, C]"""
    B, H, W, C = x.shape
    x = x.view(B, H // m, m, W // m, m, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, m * m, C)


def aus_fenster(f, m, H, W):
    """Umkehrung von in_fenster."""
    C = f.shape[-1]
    f = f.view(-1, H // m, W // m, m, m, C)
    return f.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


def log_abstaende(m):
    r = torch.arange(-(m - 1), m, dtype=torch.float32)
    gitter = torch.stack(torch.meshgrid(r, r, indexing="ij"), -1)
    gitter = gitter / max(m - 1, 1) * 8
    return torch.sign(gitter) * torch.log2(gitter.abs() + 1.0) / 3.0


def paar_index(m):
    y, x = torch.meshgrid(torch.arange(m), torch.arange(m), indexing="ij")
    p = torch.stack([y.flatten(), x.flatten()])
    d = p[:, :, None] - p[:, None, :] + (m - 1)
    return d[0] * (2 * m - 1) + d[1]


class SchiebeFensterBlock(nn.Module):
    def __init__(self, dim, koepfe, fenster=4, versatz=0):
        super().__init__()
        assert 0 <= versatz < fenster and dim % koepfe == 0
        self.m, self.s, self.h = fenster, versatz, koepfe
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.tau = nn.Parameter(torch.full((koepfe, 1, 1), math.log(10.0)))
        self.lage = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, koepfe, bias=False))
        self.aus = nn.Linear(dim, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.register_buffer("abst", log_abstaende(fenster), persistent=False)
        self.register_buffer("paar", paar_index(fenster), persistent=False)

    def _gebiete(self, H, W, geraet):
        """Nummer des zusammenhängenden Gebiets je Pixel nach dem Verschieben."""
        g = torch.zeros(1, H, W, 1, device=geraet)
        n = 0
        stuecke = (slice(0, -self.m), slice(-self.m, -self.s), slice(-self.s, None))
        for a in stuecke:
            for b in stuecke:
                g[:, a, b] = n
                n += 1
        return in_fenster(g, self.m).squeeze(-1)                # nF, m*m

    def _fenster_aufmerksamkeit(self, f, gebiet):
        n, t, c = f.shape
        bias = torch.cat([self.q_bias, torch.zeros_like(self.q_bias), self.v_bias])
        q, k, v = (self.qkv(f) + bias).view(n, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        s = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        s = s * self.tau.clamp(max=MAX_LOGIT).exp()
        lage = self.lage(self.abst).view(-1, self.h)[self.paar]     # t, t, h
        s = s + 16 * torch.sigmoid(lage).permute(2, 0, 1)
        if gebiet is not None:
            fremd = gebiet[:, None, :] != gebiet[:, :, None]        # nF, t, t
            s = s.view(-1, fremd.shape[0], self.h, t, t)
            s = s.masked_fill(fremd[None, :, None], float("-inf")).view(n, self.h, t, t)
        o = s.softmax(-1) @ v
        return self.aus(o.transpose(1, 2).reshape(n, t, c))

    def forward(self, x):
        """x: [B, H, W, C], H und W durch die Fensterbreite teilbar."""
        _, H, W, _ = x.shape
        y, gebiet = x, None
        if self.s:
            y = torch.roll(y, (-self.s, -self.s), (1, 2))
            gebiet = self._gebiete(H, W, x.device)
        y = aus_fenster(self._fenster_aufmerksamkeit(in_fenster(y, self.m), gebiet), self.m, H, W)
        if self.s:
            y = torch.roll(y, (self.s, self.s), (1, 2))
        x = x + self.norm1(y)                                       # res-post-norm
        return x + self.norm2(self.mlp(x))
