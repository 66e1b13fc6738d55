"""Bloc à fenêtres décalées pour le débruitage d'images (type SwinIR), NCHW.

On décale l'image de `pas` pixels, on applique une attention par fenêtre t x t, puis
on remet l'image en place : le pixel (y, x) de la sortie correspond au pixel (y, x) de
l'entrée. Le bord est traité de façon cyclique (textures), donc sans masque.
"""
import torch
from torch import nn
import torch.nn.functional as F


class BlocDecale(nn.Module):
    def __init__(self, c=16, tetes=2, t=4, pas=1):
        super().__init__()
        self.tetes, self.t, self.pas = tetes, t, pas
        self.norme = nn.GroupNorm(1, c)
        self.qkv = nn.Conv2d(c, 3 * c, 1)
        self.fin = nn.Conv2d(c, c, 1)

    def fenetres(self, x):
        # B (3 n d) H W -> 3 tenseurs (B fenêtres) n (t*t) d
        B, C, H, W = x.shape
        t = self.t
        x = x.reshape(B, 3, self.tetes, -1, H // t, t, W // t, t)
        return x.permute(1, 0, 4, 6, 2, 5, 7, 3).flatten(1, 3).flatten(3, 4)

    def recoller(self, y, H, W):
        t = self.t
        y = y.reshape(-1, H // t, W // t, self.tetes, t, t, y.shape[-1])
        return y.permute(0, 3, 6, 1, 4, 2, 5).reshape(y.shape[0], -1, H, W)

    def forward(self, x):
        """x [B, c, H, W], H et W multiples de t"""
        H, W = x.shape[-2:]
        z = torch.roll(self.norme(x), shifts=(-self.pas, -self.pas), dims=(-2, -1))
        q, k, v = self.fenetres(self.qkv(z))
        y = F.scaled_dot_product_attention(q, k, v)
        y = self.recoller(y, H, W)
        y = torch.roll(y, shifts=(-self.pas, -self.pas), dims=(-2, -1))
        return x + self.fin(y)
