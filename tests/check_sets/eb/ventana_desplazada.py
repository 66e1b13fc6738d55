"""Bloque Swin con ventanas desplazadas, sin sesgo relativo (apuntes de clase).

1. se desplaza el mapa ciclicamente -s pixeles
2. se parte en ventanas de w x w y se atiende dentro de cada una
3. dos pixeles que no eran vecinos antes del desplazamiento (regiones distintas) no se miran
4. se deshace la particion y el desplazamiento
"""
import torch
import torch.nn as nn


def partir(x, w):
    """(B, H, W, C) -> (B*nv, w*w, C), ventanas fila por fila"""
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, w * w, C)


def unir(v, w, H, W):
    B = v.shape[0] // ((H // w) * (W // w))
    v = v.view(B, H // w, W // w, w, w, -1).permute(0, 1, 3, 2, 4, 5)
    return v.reshape(B, H, W, -1)


def regiones(H, W, w, s):
    r = torch.zeros(H, W, dtype=torch.long)
    n = 0
    for fi in (slice(0, H - w), slice(H - w, H - s), slice(H - s, H)):
        for co in (slice(0, W - w), slice(W - w, W - s), slice(W - s, W)):
            r[fi, co] = n
            n += 1
    return r


class Bloque(nn.Module):
    def __init__(self, C, cabezas, w=4, s=2):
        super().__init__()
        assert 0 < s < w
        self.h, self.w, self.s = cabezas, w, s
        self.qkv = nn.Linear(C, 3 * C)
        self.sal = nn.Linear(C, C)

    def forward(self, x):
        """x (B, H, W, C), H y W multiplos de w. Devuelve x + atencion, misma forma."""
        B, H, W, C = x.shape
        w, s = self.w, self.s
        y = torch.roll(x, (-s, -s), dims=(1, 2))
        y = partir(y, w)                                              # (B*nv, n, C)
        q, k, v = self.qkv(y).view(y.shape[0], w * w, 3, self.h, C // self.h).permute(2, 0, 3, 1, 4)
        a = q @ k.transpose(-2, -1) * (C // self.h) ** -0.5           # (B*nv, h, n, n)
        r = partir(regiones(H, W, w, s).to(x.device)[None, :, :, None], w).squeeze(-1)   # (nv, n)
        otra = r[:, :, None] != r[:, None, :]                         # (nv, n, n)
        a = a.view(B, -1, self.h, w * w, w * w).masked_fill(otra[None, :, None], float("-inf"))
        a = a.flatten(0, 1).softmax(-1)
        y = (a @ v).transpose(1, 2).reshape(-1, w * w, C)
        y = unir(self.sal(y), w, H, W)
        return x + torch.roll(y, (s, s), dims=(1, 2))
