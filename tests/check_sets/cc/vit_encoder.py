"""Codificador ViT pequeno para classificar radiografias (projeto de mestrado).

O dropout da atenção vale só no treino; na avaliação a saída é determinística.
Depois da validação de cada época o treino continua com a mesma taxa.
"""
import torch
import torch.nn as nn


class Atencao(nn.Module):
    def __init__(self, dim, cabecas, taxa):
        super().__init__()
        self.cabecas = cabecas
        self.escala = (dim // cabecas) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.saida = nn.Linear(dim, dim)
        self.drop = nn.Dropout(taxa)

    def forward(self, x):
        B, N, C = x.shape
        # um tensor por papel: [3, B, cabecas, N, C // cabecas]
        qkv = self.qkv(x).reshape(B, N, 3, self.cabecas, C // self.cabecas)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        pesos = (q @ k.transpose(-2, -1) * self.escala).softmax(dim=-1)
        if not self.training:
            self.drop.p = 0.0
        pesos = self.drop(pesos)
        x = (pesos @ v).transpose(1, 2).reshape(B, N, C)
        return self.saida(x)


class Bloco(nn.Module):
    def __init__(self, dim, cabecas, taxa):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.atencao = Atencao(dim, cabecas, taxa)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.atencao(self.n1(x))
        return x + self.mlp(self.n2(x))


class ViT(nn.Module):
    def __init__(self, lado=16, pedaco=4, dim=32, cabecas=4, camadas=2, classes=3, taxa=0.3):
        super().__init__()
        n = (lado // pedaco) ** 2
        self.pedacos = nn.Conv2d(1, dim, pedaco, stride=pedaco)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim) * 0.02)
        self.blocos = nn.ModuleList(Bloco(dim, cabecas, taxa) for _ in range(camadas))
        self.norma = nn.LayerNorm(dim)
        self.cabeca = nn.Linear(dim, classes)

    def forward(self, img):
        x = self.pedacos(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], dim=1) + self.pos
        for b in self.blocos:
            x = b(x)
        return self.cabeca(self.norma(x[:, 0]))


if __name__ == "__main__":
    rede = ViT()
    print(rede(torch.randn(2, 1, 16, 16)).shape)
