"""Decodificador de rotas de entrega (política de aprendizado por reforço).

Segue o "Attention Model" para roteamento: a cada passo o contexto (média do
grafo, nó atual, carga restante) faz uma consulta com várias cabeças sobre os nós
ainda permitidos e o resultado aponta para o próximo nó.  Os logits do
ponteiro passam por C * tanh(.) antes da máscara (C = 10), como no artigo.
O nó 0 é o depósito e está sempre permitido.
"""
import math
from typing import NamedTuple

import torch
import torch.nn as nn


class Estado(NamedTuple):
    atual: torch.Tensor      # [B] índice do nó atual
    carga: torch.Tensor      # [B] capacidade restante, entre 0 e 1
    visitado: torch.Tensor   # [B, N] verdadeiro = já atendido


class DecodificadorRota(nn.Module):
    def __init__(self, dim: int = 32, cabecas: int = 4, corte: float = 10.0):
        super().__init__()
        self.dim, self.cabecas, self.corte = dim, cabecas, corte
        self.contexto = nn.Linear(2 * dim + 1, dim, bias=False)
        self.chaves = nn.Linear(dim, dim, bias=False)
        self.valores = nn.Linear(dim, dim, bias=False)
        self.chaves_ponteiro = nn.Linear(dim, dim, bias=False)
        self.junta = nn.Linear(dim, dim, bias=False)

    def _cabecas(self, x):
        # [B, N, D] -> [B, H, N, D/H]
        return x.unflatten(-1, (self.cabecas, -1)).transpose(1, 2)

    def forward(self, nos: torch.Tensor, estado: Estado) -> torch.Tensor:
        """Devolve log-probabilidades [B, N] do próximo nó."""
        lote = torch.arange(nos.shape[0], device=nos.device)
        proibido = estado.visitado.clone()
        proibido[:, 0] = False

        ctx = torch.cat(
            [nos.mean(1), nos[lote, estado.atual], estado.carga[:, None]], dim=-1
        )
        q = self._cabecas(self.contexto(ctx)[:, None, :])
        k = self._cabecas(self.chaves(nos))
        v = self._cabecas(self.valores(nos))

        compat = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        compat = compat.masked_fill(proibido[:, None, None, :], -math.inf)
        olhar = compat.softmax(-1) @ v                       # [B, H, 1, d]
        olhar = self.junta(olhar.transpose(1, 2).flatten(2))  # [B, 1, D]

        kp = self.chaves_ponteiro(nos)
        u = (olhar @ kp.transpose(1, 2)).squeeze(1) / math.sqrt(self.dim)
        u = self.corte * torch.tanh(u)
        return u.masked_fill(proibido, -math.inf).log_softmax(-1)

    @torch.no_grad()
    def guloso(self, nos, estado):
        return self(nos, estado).argmax(-1)
