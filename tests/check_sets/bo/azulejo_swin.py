"""Detecção de defeitos de vidrado em azulejos (linha de fabrico, Aveiro).

Atenção em janelas deslocadas, à maneira do Swin: desloca-se o mapa, reparte-se
em janelas, cada janela olha para si própria, e volta tudo ao seu lugar.
"""
import torch
import torch.nn as nn

DEFEITOS = ("bolha", "fissura", "falta de vidrado", "mancha", "ok")


def partir(x, w):
    # [B, H, W, C] -> [B * nj, w*w, C]
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, w * w, C)


def juntar(j, w, H, W):
    B = j.shape[0] // ((H // w) * (W // w))
    x = j.view(B, H // w, W // w, w, w, -1).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(B, H, W, -1)


def mascara_de_fronteira(H, W, w, s):
    """[nj, w*w, w*w] aditiva: pixels que só ficaram vizinhos pelo deslocamento
    circular não se veem."""
    img = torch.zeros(1, H, W, 1)
    n = 0
    for a in (slice(0, -w), slice(-w, -s), slice(-s, None)):
        for b in (slice(0, -w), slice(-w, -s), slice(-s, None)):
            img[:, a, b] = n
            n += 1
    r = partir(img, w).squeeze(-1)
    dif = r[:, None, :] - r[:, :, None]
    return torch.zeros_like(dif).masked_fill(dif != 0, float("-inf"))


class JanelaDeslocada(nn.Module):
    """x [B, H, W, C] -> [B, H, W, C]; H e W múltiplos de `janela`.

    O pixel (i, j) da saída é a atenção do pixel (i, j) da entrada.
    """

    def __init__(self, C=24, cabecas=3, janela=4, desloc=2):
        super().__init__()
        self.w, self.s, self.h = janela, desloc, cabecas
        self.qkv = nn.Linear(C, 3 * C)
        self.proj = nn.Linear(C, C)
        n = 2 * janela - 1
        self.tabela = nn.Parameter(torch.randn(n * n, cabecas) * 0.02)
        c = torch.stack(torch.meshgrid(*[torch.arange(janela)] * 2, indexing="ij")).flatten(1)
        rel = (c[:, :, None] - c[:, None, :]) + janela - 1
        self.register_buffer("indice", rel[0] * n + rel[1])

    def forward(self, x):
        B, H, W, C = x.shape
        if self.s:
            x = torch.roll(x, shifts=(-self.s, -self.s), dims=(1, 2))
        j = partir(x, self.w)
        n = j.shape[1]
        q, k, v = self.qkv(j).reshape(-1, n, 3, self.h, C // self.h).permute(2, 0, 3, 1, 4)
        a = q @ k.transpose(-2, -1) * (C // self.h) ** -0.5
        a = a + self.tabela[self.indice].permute(2, 0, 1)
        if self.s:
            m = mascara_de_fronteira(H, W, self.w, self.s).to(a)
            a = (a.view(B, -1, self.h, n, n) + m[None, :, None]).view(-1, self.h, n, n)
        y = (a.softmax(-1) @ v).transpose(1, 2).reshape(-1, n, C)
        y = juntar(y, self.w, H, W)
        if self.s:
            y = torch.roll(y, shifts=(-self.s, -self.s), dims=(1, 2))
        return self.proj(y)


class InspetorDeAzulejos(nn.Module):
    def __init__(self, C=24):
        super().__init__()
        self.remendo = nn.Conv2d(3, C, 4, 4)
        self.b = nn.ModuleList([JanelaDeslocada(C, desloc=0), JanelaDeslocada(C, desloc=2)])
        self.n = nn.ModuleList([nn.LayerNorm(C), nn.LayerNorm(C)])
        self.f = nn.Linear(C, len(DEFEITOS))

    def forward(self, img):
        h = self.remendo(img).permute(0, 2, 3, 1)
        for b, n in zip(self.b, self.n):
            h = h + b(n(h))
        return self.f(h.mean((1, 2)))
