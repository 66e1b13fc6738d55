import torch
from torch import nn


class Mosaico(nn.Module):
    """Atención por ventanas sobre imágenes (B, C, H, W); H y W múltiplos de la ventana.

    Con desfase > 0 la imagen se desplaza de forma cíclica, los trozos que no eran
    vecinos no se ven entre sí, y al final todo vuelve a su lugar.
    """

    def __init__(self, canales, cabezas, ventana=4, desfase=0):
        super().__init__()
        self.h, self.w, self.s = cabezas, ventana, desfase
        self.norma = nn.GroupNorm(1, canales)
        self.qkv = nn.Conv2d(canales, 3 * canales, 1)
        self.sal = nn.Conv2d(canales, canales, 1)
        self.tabla = nn.Parameter(torch.randn((2 * ventana - 1) ** 2, cabezas) * 0.02)
        r = torch.arange(ventana)
        p = torch.stack(torch.meshgrid(r, r, indexing="ij")).flatten(1)
        dif = p[:, :, None] - p[:, None, :] + ventana - 1
        self.register_buffer("idx", dif[0] * (2 * ventana - 1) + dif[1], persistent=False)

    def partir(self, x):
        B, C, H, W = x.shape
        x = x.view(B, C, H // self.w, self.w, W // self.w, self.w)
        return x.permute(0, 2, 4, 3, 5, 1).reshape(B, -1, self.w * self.w, C)

    def zonas(self, H, W, dev):
        def eje(n):
            i = torch.arange(n, device=dev)
            return (i >= n - self.w).long() + (i >= n - self.s).long()
        return eje(H)[:, None] * 3 + eje(W)[None, :]

    def forward(self, x):
        B, C, H, W = x.shape
        y = self.qkv(self.norma(x))
        if self.s:
            y = torch.roll(y, (-self.s, -self.s), dims=(2, 3))
        t = self.partir(y)                                         # B, nV, w*w, 3C
        nV, n = t.shape[1], t.shape[2]
        q, k, v = t.view(B, nV, n, 3, self.h, C // self.h).permute(3, 0, 1, 4, 2, 5)
        a = q @ k.transpose(-1, -2) * (C // self.h) ** -0.5
        a = a + self.tabla[self.idx].permute(2, 0, 1)
        if self.s:
            z = self.partir(self.zonas(H, W, x.device)[None, None]).squeeze(-1)   # 1, nV, n
            ajeno = z[..., :, None] != z[..., None, :]
            a = a.masked_fill(ajeno[:, :, None], float("-inf"))
        o = (a.softmax(-1) @ v).transpose(2, 3).reshape(B, H // self.w, W // self.w, self.w, self.w, C)
        o = o.permute(0, 5, 1, 3, 2, 4).reshape(B, C, H, W)
        if self.s:
            o = torch.roll(o, (self.s, self.s), dims=(2, 3))
        return x + self.sal(o)
