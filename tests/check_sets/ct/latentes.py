"""Reamostrador de latentes para vídeo de vigilância florestal."""
import torch
from torch import nn


class Reamostrador(nn.Module):
    """
    Os latentes aprendidos consultam os quadros E os próprios latentes.

    quadros : (B, N, dim)
    valido  : (B, N) bool, True = quadro presente, False = ignorar
    saída   : (B, n_latentes, dim), soma residual já incluída

    Os latentes são sempre visíveis, portanto nenhuma linha fica vazia.
    """

    def __init__(self, dim=24, n_latentes=4, cabecas=2, largura=8):
        super().__init__()
        self.c, self.l = cabecas, largura
        self.latentes = nn.Parameter(torch.randn(n_latentes, dim))
        self.norma_q = nn.LayerNorm(dim)
        self.norma_kv = nn.LayerNorm(dim)
        self.para_q = nn.Linear(dim, cabecas * largura, bias=False)
        self.para_kv = nn.Linear(dim, 2 * cabecas * largura, bias=False)
        self.sair = nn.Linear(cabecas * largura, dim, bias=False)

    def forward(self, quadros, valido=None):
        B, N, _ = quadros.shape
        lat = self.latentes.expand(B, -1, -1)
        M = lat.size(1)
        consulta = self.norma_q(lat)
        fonte = torch.cat([self.norma_kv(quadros), consulta], dim=1)     # (B, N+M, dim)

        q = self.para_q(consulta).view(B, M, self.c, self.l)
        # a projeção guarda, por cabeça, primeiro a chave e depois o valor
        kv = self.para_kv(fonte).view(B, N + M, self.c, 2 * self.l)
        k, v = kv.split(self.l, dim=-1)

        pontos = torch.einsum("bmcl,bncl->bmnc", q, k) * self.l ** -0.5
        if valido is not None:
            tudo = torch.cat([valido, valido.new_ones(B, M)], dim=1)
            pontos = pontos.masked_fill(~tudo[:, None, :, None], float("-inf"))
        # as cabeças ficam no último eixo; a fonte é o eixo 2
        pesos = pontos.softmax(dim=2)
        lido = torch.einsum("bmnc,bncl->bmcl", pesos, v).flatten(2)
        return lat + self.sair(lido)
