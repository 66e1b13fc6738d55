"""GATv2 (Brody, Alon e Yahav, 2022) sobre lista de arestas, sem torch_geometric.

x        : (N, F) atributos dos nós
arestas  : (2, E) int64, linha 0 = origem j, linha 1 = destino i (a mensagem vai de j para i)
saída    : (N, cabecas * dim)

    e_ij   = a_h . LeakyReLU(W_destino x_i + W_origem x_j)       (a depois da não linearidade)
    alfa   = softmax de e_ij sobre as arestas que chegam no mesmo destino i
    saida_i = soma_j alfa_ij W_origem x_j + viés

Arestas repetidas contam duas vezes; um nó sem arestas de entrada recebe só o viés. Se quiser
laços (i, i), ponha na lista.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CamadaGATv2(nn.Module):
    def __init__(self, entrada, dim, cabecas, inclinacao=0.2, descarte=0.0):
        super().__init__()
        self.cabecas, self.dim = cabecas, dim
        self.inclinacao, self.descarte = inclinacao, descarte
        self.W_origem = nn.Linear(entrada, cabecas * dim, bias=False)
        self.W_destino = nn.Linear(entrada, cabecas * dim, bias=False)
        self.a = nn.Parameter(torch.randn(cabecas, dim) / dim ** 0.5)
        self.vies = nn.Parameter(torch.zeros(cabecas * dim))

    def softmax_por_destino(self, e, destino, n):
        indice = destino.unsqueeze(-1).expand_as(e)
        teto = e.new_full((n, e.shape[1]), float("-inf"))
        teto = teto.scatter_reduce(0, indice, e, reduce="amax")
        p = (e - teto[destino]).exp()
        total = e.new_zeros(n, e.shape[1]).index_add(0, destino, p)
        return p / total[destino]

    def forward(self, x, arestas):
        n = x.shape[0]
        origem, destino = arestas
        xo = self.W_origem(x).view(n, self.cabecas, self.dim)
        xd = self.W_destino(x).view(n, self.cabecas, self.dim)
        s = F.leaky_relu(xo[origem] + xd[destino], self.inclinacao)
        e = torch.einsum("ehd,hd->eh", s, self.a)
        alfa = self.softmax_por_destino(e, destino, n)
        alfa = F.dropout(alfa, self.descarte, training=self.training)
        mensagem = alfa.unsqueeze(-1) * xo[origem]
        saida = torch.zeros_like(xo).index_add(0, destino, mensagem)
        return saida.flatten(1) + self.vies
