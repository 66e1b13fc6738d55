import torch
import torch.nn as nn


class Janelas(nn.Module):
    """Auto-atenção em janelas w x w com viés de posição relativa.

    imagem: (B, C, H, W), com H e W múltiplos de w -> mesma forma
    """

    def __init__(self, canais=24, cabecas=3, w=4):
        super().__init__()
        self.w, self.cabecas, self.d = w, cabecas, canais // cabecas
        self.norma = nn.LayerNorm(canais)
        self.qkv = nn.Linear(canais, 3 * canais)
        self.saida = nn.Linear(canais, canais)
        self.tabela = nn.Parameter(torch.randn((2 * w - 1) ** 2, cabecas) * 0.5)
        y, x = torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")
        y, x = y.flatten(), x.flatten()
        dy = y[:, None] - y[None, :] + w - 1
        dx = x[:, None] - x[None, :] + w - 1
        self.register_buffer("indice", dy * (2 * w - 1) + dx)

    def forward(self, imagem):
        B, C, H, W = imagem.shape
        w = self.w
        t = imagem.view(B, C, H // w, w, W // w, w)
        t = t.permute(0, 2, 4, 3, 5, 1).reshape(-1, w * w, C)
        qkv = self.qkv(self.norma(t)).view(-1, w * w, 3, self.cabecas, self.d)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        notas = (q * self.d ** -0.5) @ k.transpose(-1, -2)
        notas = notas + self.tabela[self.indice].permute(2, 0, 1)
        r = notas.softmax(-1) @ v
        r = self.saida(r.transpose(1, 2).reshape(-1, w * w, C)) + t
        r = r.view(B, H // w, W // w, w, w, C)
        return r.permute(0, 5, 1, 3, 2, 4).reshape(B, C, H, W)
