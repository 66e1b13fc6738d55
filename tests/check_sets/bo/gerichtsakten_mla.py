"""Latente Mehrkopf-Aufmerksamkeit (MLA) fuer lange Gerichtsakten.

Im Cache liegt je Token nur der komprimierte Vektor c_kv und der gemeinsame
Positionsschluessel k_pe.  Die Kopfprojektionen werden beim Lesen entfaltet.
"""
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


@dataclass
class AktenConfig:
    breite: int = 64
    koepfe: int = 4
    d_inhalt: int = 12      # Anteil ohne Position je Kopf
    d_pos: int = 8          # Anteil mit RoPE, alle Koepfe teilen den Schluessel
    d_wert: int = 10
    rang_kv: int = 20
    theta: float = 10_000.0


class RMSNorm(nn.Module):
    def __init__(self, d: int, eps: float = 1e-6):
        super().__init__()
        self.g, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.g


def drehe(x: Tensor, start: int, theta: float) -> Tensor:
    """RoPE, Haelften-Layout. x: (B, L, H, d); Token i steht auf start + i."""
    d, laenge = x.shape[-1], x.shape[1]
    freq = theta ** (-torch.arange(0, d, 2, dtype=torch.float32) / d)
    winkel = torch.outer(torch.arange(start, start + laenge).float(), freq)
    c, s = winkel.cos()[None, :, None], winkel.sin()[None, :, None]
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1).to(x.dtype)


class LatenteAufmerksamkeit(nn.Module):
    """Kausal. forward(x, cache) -> (y, neuer_cache); cache=None beim Vorlauf."""

    def __init__(self, cfg: AktenConfig = AktenConfig()):
        super().__init__()
        c = self.cfg = cfg
        self.w_q = nn.Linear(c.breite, c.koepfe * (c.d_inhalt + c.d_pos), bias=False)
        self.w_ab = nn.Linear(c.breite, c.rang_kv + c.d_pos, bias=False)
        self.norm_kv = RMSNorm(c.rang_kv)
        self.w_auf = nn.Linear(c.rang_kv, c.koepfe * (c.d_inhalt + c.d_wert), bias=False)
        self.w_o = nn.Linear(c.koepfe * c.d_wert, c.breite, bias=False)
        self.skala = (c.d_inhalt + c.d_pos) ** -0.5

    def forward(self, x: Tensor, cache: tuple[Tensor, Tensor] | None = None):
        c = self.cfg
        B, L, _ = x.shape
        alt = 0 if cache is None else cache[0].shape[1]

        q = self.w_q(x).view(B, L, c.koepfe, c.d_inhalt + c.d_pos)
        q_c, q_pe = q.split([c.d_inhalt, c.d_pos], dim=-1)
        q_pe = drehe(q_pe, alt, c.theta)

        c_kv, k_pe = self.w_ab(x).split([c.rang_kv, c.d_pos], dim=-1)
        c_kv = self.norm_kv(c_kv)
        k_pe = drehe(k_pe.unsqueeze(2), alt, c.theta).squeeze(2)
        if cache is not None:
            c_kv = torch.cat([cache[0], c_kv], dim=1)
            k_pe = torch.cat([cache[1], k_pe], dim=1)
        S = c_kv.shape[1]

        kv = self.w_auf(c_kv).view(B, S, c.koepfe, c.d_inhalt + c.d_wert)
        k_c, v = kv.split([c.d_inhalt, c.d_wert], dim=-1)

        punkte = torch.einsum("blhd,bshd->bhls", q_c, k_c)
        punkte = punkte + torch.einsum("blhd,bsd->bhls", q_pe, k_pe)
        punkte = punkte.float() * self.skala
        # Zeile l ist das absolute Token alt + l
        sichtbar = torch.ones(L, S, dtype=torch.bool, device=x.device).tril(S - L)
        punkte = punkte.masked_fill(~sichtbar, float("-inf"))
        p = F.softmax(punkte, dim=-1).to(v.dtype)
        y = torch.einsum("bhls,bshd->blhd", p, v).reshape(B, L, -1)
        return self.w_o(y), (c_kv, k_pe)
