"""Knoten-ViT: Vision Transformer, der Seemannsknoten auf Fotos unterscheidet (Schulprojekt).

Bild (B, 3, 64, 64) -> Logits (B, 12).  16x16-Flicken, also 16 Token plus ein CLS-Token.

Die Aufmerksamkeit ist die aus dem Aufsatz (Dosovitskiy et al. 2020, Anhang A):
jeder der k Köpfe rechnet mit D_h = D / k Spalten

    A = softmax( q k^T / sqrt(D_h) ),   SA = A v,
    MSA = [SA_1 ; SA_2 ; ... ; SA_k] U_msa          (je Token aneinandergehängt)
"""
import torch
import torch.nn as nn


class KopfAufmerksamkeit(nn.Module):
    """x (B, N, D) -> (B, N, D)"""

    def __init__(self, dim, koepfe):
        super().__init__()
        self.dim = dim
        self.koepfe = koepfe
        self.U_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.U_msa = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, D = x.shape
        q, k, v = self.U_qkv(x).chunk(3, dim=-1)
        # (B, Köpfe, N, D_h)
        q = q.view(B, N, self.koepfe, D // self.koepfe).transpose(1, 2)
        k = k.view(B, N, self.koepfe, D // self.koepfe).transpose(1, 2)
        v = v.view(B, N, self.koepfe, D // self.koepfe).transpose(1, 2)
        A = q @ k.transpose(-1, -2)
        A = A / self.dim ** 0.5
        A = A.softmax(dim=-1)
        SA = A @ v
        SA = SA.contiguous().view(B, N, D)
        return self.U_msa(SA)


class KnotenViT(nn.Module):
    def __init__(self, dim=64, tiefe=3, koepfe=4, klassen=12):
        super().__init__()
        self.flicken = nn.Conv2d(3, dim, kernel_size=16, stride=16)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, 17, dim) * 0.02)
        self.norm1 = nn.ModuleList([nn.LayerNorm(dim) for _ in range(tiefe)])
        self.norm2 = nn.ModuleList([nn.LayerNorm(dim) for _ in range(tiefe)])
        self.msa = nn.ModuleList([KopfAufmerksamkeit(dim, koepfe) for _ in range(tiefe)])
        self.mlp = nn.ModuleList(
            [nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)) for _ in range(tiefe)]
        )
        self.kopf = nn.Linear(dim, klassen)

    def forward(self, bild):
        z = self.flicken(bild).flatten(2).transpose(1, 2)
        z = torch.cat([self.cls.expand(z.shape[0], -1, -1), z], 1) + self.pos
        for n1, n2, msa, mlp in zip(self.norm1, self.norm2, self.msa, self.mlp):
            z = z + msa(n1(z))
            z = z + mlp(n2(z))
        return self.kopf(z[:, 0])
