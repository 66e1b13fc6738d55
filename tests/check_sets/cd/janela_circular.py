"""Atenção com janela deslizante e buffer circular, para transcrição contínua.

O decodificador recebe um quadro por vez. Só os últimos ``janela`` quadros
(contando o atual) ficam na memória; quando o buffer enche, o quadro novo
ocupa o lugar do mais antigo. Antes da leitura o buffer é posto em ordem
cronológica, porque o viés ``-decaimento * idade`` depende da idade do quadro.
"""
import torch
from torch import nn


class AtencaoCircular(nn.Module):
    def __init__(self, dim=16, cabecas=2, janela=6):
        super().__init__()
        self.cabecas = cabecas
        self.d = dim // cabecas
        self.janela = janela
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.saida = nn.Linear(dim, dim)
        self.decaimento = nn.Parameter(torch.full((cabecas, 1), 0.1))

    def estado_inicial(self, lote):
        vazio = torch.zeros(lote, self.cabecas, self.janela, self.d)
        return {"k": vazio, "v": vazio.clone(), "vistos": 0}

    def _por_cabeca(self, y):
        return y.view(-1, self.cabecas, self.d)

    def passo(self, x, estado):
        """x: [lote, dim] -> (y: [lote, dim], estado novo)"""
        pos = estado["vistos"] % self.janela
        bk, bv = estado["k"].clone(), estado["v"].clone()
        bk[:, :, pos] = self._por_cabeca(self.k(x))
        bv[:, :, pos] = self._por_cabeca(self.v(x))
        vistos = estado["vistos"] + 1

        if vistos <= self.janela:
            k, v = bk[:, :, :vistos], bv[:, :, :vistos]
        else:  # o mais antigo está logo depois do mais novo
            mais_antigo = vistos % self.janela
            k = torch.roll(bk, -mais_antigo, dims=2)
            v = torch.roll(bv, mais_antigo, dims=2)

        n = k.shape[2]
        idade = torch.arange(n - 1, -1, -1, dtype=x.dtype, device=x.device)
        q = self._por_cabeca(self.q(x))
        pontos = torch.einsum("bhd,bhnd->bhn", q, k) / self.d ** 0.5
        pesos = torch.softmax(pontos - self.decaimento * idade, dim=-1)
        y = torch.einsum("bhn,bhnd->bhd", pesos, v).flatten(1)
        return self.saida(y), {"k": bk, "v": bv, "vistos": vistos}

    def forward(self, xs):
        """xs: [lote, tempo, dim], quadro a quadro."""
        estado = self.estado_inicial(xs.shape[0])
        ys = []
        for t in range(xs.shape[1]):
            y, estado = self.passo(xs[:, t], estado)
            ys.append(y)
        return torch.stack(ys, dim=1)


if __name__ == "__main__":
    print(AtencaoCircular()(torch.randn(2, 10, 16)).shape)
