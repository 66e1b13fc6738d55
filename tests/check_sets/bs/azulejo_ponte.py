"""Painéis de azulejos: completar as peças que faltam.

Treina-se em PyTorch (nn.MultiheadAttention), mas o programa do museu só tem NumPy.  Este módulo
é a ponte: exporta os pesos e refaz a mesma conta.  `conferir()` compara os dois lados.

Convenções do PyTorch mantidas: in_proj_weight tem as linhas na ordem q, k, v; em
`ignorar` (key_padding_mask) True quer dizer "não olhar"; os lotes vêm primeiro (batch_first).
"""
import numpy as np
import torch
from torch import nn

LADO = 4                                  # painel de LADO x LADO peças


class Painel(nn.Module):
    def __init__(self, cores=6, dim=24, cabecas=3):
        super().__init__()
        self.peca = nn.Embedding(cores + 1, dim)          # a última: peça perdida
        self.lugar = nn.Parameter(torch.randn(LADO * LADO, dim) * 0.1)
        self.at = nn.MultiheadAttention(dim, cabecas, batch_first=True, dropout=0.1)
        self.cor = nn.Linear(dim, cores)
        self.cabecas = cabecas

    def forward(self, pecas, ignorar=None):
        x = self.peca(pecas) + self.lugar
        y, _ = self.at(x, x, x, key_padding_mask=ignorar, need_weights=False)
        return self.cor(x + y)


def exportar(painel):
    """dict de matrizes NumPy (float64)."""
    return {n: t.detach().cpu().double().numpy() for n, t in painel.state_dict().items()}


def atencao_numpy(pesos, x, cabecas, memoria=None, ignorar=None, prefixo="at."):
    """A mesma atenção que nn.MultiheadAttention em eval(), em NumPy.

    x [lote, m, dim] pergunta; memoria [lote, n, dim] é lida (sem ela: o próprio x).
    """
    W, b = pesos[prefixo + "in_proj_weight"], pesos[prefixo + "in_proj_bias"]
    dim = W.shape[1]
    memoria = x if memoria is None else memoria
    lote, m, n = x.shape[0], x.shape[1], memoria.shape[1]
    d = dim // cabecas

    def partir(entrada, i, comprimento):
        fatia = slice(i * dim, (i + 1) * dim)
        y = entrada @ W[fatia].T + b[fatia]
        return np.moveaxis(y.reshape(lote, comprimento, cabecas, d), 2, 1)

    q, k, v = partir(x, 0, m), partir(memoria, 1, n), partir(memoria, 2, n)
    s = np.einsum("lcmd,lcnd->lcmn", q, k) / np.sqrt(d)
    if ignorar is not None:
        s[np.broadcast_to(ignorar[:, None, None, :], s.shape)] = -np.inf
    s -= s.max(-1, keepdims=True)
    a = np.exp(s)
    a /= a.sum(-1, keepdims=True)
    y = np.moveaxis(a @ v, 1, 2).reshape(lote, m, dim)
    return y @ pesos[prefixo + "out_proj.weight"].T + pesos[prefixo + "out_proj.bias"]


def completar(pesos, pecas, cabecas, ignorar=None):
    x = pesos["peca.weight"][pecas] + pesos["lugar"]
    y = x + atencao_numpy(pesos, x, cabecas, ignorar=ignorar)
    return y @ pesos["cor.weight"].T + pesos["cor.bias"]


def conferir(semente=0, tolerancia=1e-9):
    torch.manual_seed(semente)
    painel = Painel().double().eval()
    nn.init.normal_(painel.at.in_proj_bias)
    pecas = torch.randint(0, 7, (2, LADO * LADO))
    ignorar = torch.zeros(2, LADO * LADO, dtype=torch.bool)
    ignorar[1, 10:] = True
    with torch.no_grad():
        certo = painel(pecas, ignorar).numpy()
    nosso = completar(exportar(painel), pecas.numpy(), painel.cabecas, ignorar.numpy())
    erro = float(np.abs(certo - nosso).max())
    assert erro < tolerancia, erro
    return erro


if __name__ == "__main__":
    print("diferença máxima:", conferir())
