import torch
import torch.nn as nn


def particionar(x, j):
    # (B, H, W, C) -> (B*nJ, j*j, C)
    B, H, W, C = x.shape
    x = x.view(B, H // j, j, W // j, j, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, j * j, C)


def juntar(jan, j, H, W):
    # (B*nJ, j*j, C) -> (B, H, W, C)
    B = jan.shape[0] // ((H // j) * (W // j))
    x = jan.view(B, H // j, W // j, j, j, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


class AtencaoJanela(nn.Module):
    def __init__(self, dim, janela, cabecas):
        super().__init__()
        self.cabecas = cabecas
        self.escala = (dim // cabecas) ** -0.5
        self.tabela = nn.Parameter(torch.zeros((2 * janela - 1) ** 2, cabecas))
        nn.init.trunc_normal_(self.tabela, std=0.02)
        coords = torch.stack(torch.meshgrid(torch.arange(janela), torch.arange(janela), indexing="ij")).flatten(1)
        rel = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0) + janela - 1
        self.register_buffer("indice", rel[..., 0] * (2 * janela - 1) + rel[..., 1])
        self.qkv = nn.Linear(dim, 3 * dim)
        self.saida = nn.Linear(dim, dim)

    def forward(self, x, mascara=None):
        # x: (B*nJ, N, C); mascara: (nJ, N, N), 0 ou -inf
        BJ, N, C = x.shape
        h = self.cabecas
        q, k, v = self.qkv(x).reshape(BJ, N, 3, h, C // h).permute(2, 0, 3, 1, 4)
        s = (q * self.escala) @ k.transpose(-2, -1)
        s = s + self.tabela[self.indice].permute(2, 0, 1)
        if mascara is not None:
            nJ = mascara.shape[0]
            s = s.view(BJ // nJ, nJ, h, N, N) + mascara[:, None]
            s = s.view(BJ, h, N, N)
        x = (s.softmax(-1) @ v).transpose(1, 2).reshape(BJ, N, C)
        return self.saida(x)


class BlocoSwin(nn.Module):
    def __init__(self, dim, resolucao, cabecas, janela=4, desloc=2):
        super().__init__()
        self.res, self.j, self.d = resolucao, janela, desloc
        self.norma1 = nn.LayerNorm(dim)
        self.atencao = AtencaoJanela(dim, janela, cabecas)
        self.norma2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        mascara = None
        if desloc > 0:
            H, W = resolucao
            regiao = torch.zeros(1, H, W, 1)
            faixas = (slice(0, -janela), slice(-janela, -desloc), slice(-desloc, None))
            n = 0
            for a in faixas:
                for b in faixas:
                    regiao[:, a, b] = n
                    n += 1
            r = particionar(regiao, janela).squeeze(-1)
            difere = r[:, None, :] != r[:, :, None]
            mascara = torch.zeros(difere.shape).masked_fill(difere, float("-inf"))
        self.register_buffer("mascara", mascara)

    def forward(self, x):
        # x: (B, H*W, C)
        H, W = self.res
        B, L, C = x.shape
        y = self.norma1(x).view(B, H, W, C)
        if self.d:
            y = torch.roll(y, (-self.d, -self.d), (1, 2))
        y = self.atencao(particionar(y, self.j), self.mascara)
        y = juntar(y, self.j, H, W)
        if self.d:
            y = torch.roll(y, (self.d, self.d), (1, 2))
        x = x + y.reshape(B, L, C)
        return x + self.mlp(self.norma2(x))
