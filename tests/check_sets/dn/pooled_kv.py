"""Aufmerksamkeit mit verdichteten Schlüsseln (PVT / MViT).

Die Tokens sind [cls, Pixel 0, Pixel 1, ...] (zeilenweise).  Schlüssel und Werte
entstehen aus einem um den Faktor r verkleinerten Bild (Faltung mit Schrittweite
r, je Kanal ein Filter, danach LayerNorm); das cls-Token wird nicht verdichtet,
sondern direkt mitgelesen.

PooledKV(dim, heads, r)
    forward(x, hw)   x (B, 1 + H*W, dim), hw = (H, W), beide durch r teilbar
                     -> (B, 1 + H*W, dim)
    residual_q=True  addiert wie in MViTv2 die Anfragen auf die Ausgabe der Köpfe
                     (nur für die Pixel, nicht für cls)
Bewertung: q.k / sqrt(dim / heads), Softmax über die 1 + H*W / r^2 Schlüssel.
"""
import torch
import torch.nn.functional as F
from torch import nn


class PooledKV(nn.Module):
    def __init__(self, dim, heads=4, r=2, residual_q=False):
        super().__init__()
        self.heads = heads
        self.residual_q = residual_q
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.verdichten = nn.Conv2d(dim, dim, kernel_size=r, stride=r, groups=dim)
        self.norm = nn.LayerNorm(dim)
        self.proj = nn.Linear(dim, dim)

    def _klein(self, x, hw):
        """cls behalten, Pixel verdichten: (B, 1 + H*W, C) -> (B, 1 + H*W/r^2, C)"""
        cls, pix = x[:, :1], x[:, 1:]
        bild = pix.transpose(1, 2).unflatten(2, hw)          # (B, C, H, W)
        bild = self.verdichten(bild).flatten(2).transpose(1, 2)
        return torch.cat([cls, self.norm(bild)], dim=1)

    def _koepfe(self, t):
        B, L, C = t.shape
        return t.reshape(B, L, self.heads, C // self.heads).permute(0, 2, 1, 3)

    def forward(self, x, hw):
        B, L, C = x.shape
        assert L == 1 + hw[0] * hw[1], "hw passt nicht zur Zahl der Tokens"
        q = self._koepfe(self.q(x))
        k, v = self.kv(self._klein(x, hw)).chunk(2, dim=-1)
        # skaliert von selbst mit 1/sqrt(Kopfbreite)
        y = F.scaled_dot_product_attention(q, self._koepfe(k), self._koepfe(v))
        if self.residual_q:
            y = torch.cat([y[:, :, :1], y[:, :, 1:] + q[:, :, 1:]], dim=2)
        return self.proj(y.transpose(1, 2).reshape(B, L, C))


class PooledBlock(nn.Module):
    """Pre-LN-Block: x + Attn(LN x), danach x + MLP(LN x)."""

    def __init__(self, dim, heads=4, r=2, mlp=4, residual_q=True):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = PooledKV(dim, heads, r, residual_q)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp * dim), nn.GELU(), nn.Linear(mlp * dim, dim))

    def forward(self, x, hw):
        x = x + self.attn(self.n1(x), hw)
        return x + self.mlp(self.n2(x))
