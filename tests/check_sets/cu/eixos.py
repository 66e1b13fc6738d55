"""Atenção axial para mapas de segmentação.

Primeiro ao longo da largura, depois da altura. Tensores [B, C, H, W]; cada pixel
distribui peso 1 sobre os pixels da sua linha (ou coluna).
"""
import torch
import torch.nn as nn


class Eixo(nn.Module):
    def __init__(self, c, n, tam):
        super().__init__()
        self.n, self.d = n, c // n
        self.qkv = nn.Conv1d(c, 3 * c, 1, bias=False)
        self.rel = nn.Parameter(torch.randn(2 * tam - 1, self.d) * 0.1)
        self.tam = tam

    def forward(self, x):
        # x: [lote, c, L]
        b, c, L = x.shape
        q, k, v = self.qkv(x).view(b, 3, self.n, self.d, L).unbind(1)
        pos = torch.arange(L, device=x.device)
        r = self.rel[pos[None, :] - pos[:, None] + self.tam - 1]     # [i, j, d]
        e = torch.einsum("bndi,bndj->bnij", q, k)
        e = e + torch.einsum("bndi,ijd->bnij", q, r)
        a = torch.softmax(e * self.d ** -0.5, dim=2)
        y = torch.einsum("bnij,bndj->bndi", a, v)
        return y.reshape(b, c, L)


class AtencaoAxial(nn.Module):
    def __init__(self, c=16, n=2, tam=16):
        super().__init__()
        self.norm = nn.GroupNorm(1, c)
        self.larg = Eixo(c, n, tam)
        self.alt = Eixo(c, n, tam)
        self.proj = nn.Conv2d(c, c, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.norm(x)
        y = self.larg(y.permute(0, 2, 1, 3).reshape(b * h, c, w))
        y = y.view(b, h, c, w).permute(0, 3, 2, 1).reshape(b * w, c, h)
        y = self.alt(y).view(b, w, c, h).permute(0, 2, 3, 1)
        return x + self.proj(y)
