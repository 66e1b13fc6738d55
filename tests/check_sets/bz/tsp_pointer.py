"""Decoder of "Attention, Learn to Solve Routing Problems!" (Kool et al., 2019) for the TSP.

Al paso t el contexto es [media del grafo ; primer nodo ; último nodo]. Primero un "glimpse"
con varias cabezas sobre las ciudades no visitadas, y después un puntero de una sola cabeza
cuyos logits se recortan con  C * tanh(u),  C = 10.

decode() hace una ruta codiciosa (greedy) y devuelve la ruta y la suma de log-probabilidades.
"""
import math

import torch
import torch.nn as nn


class TSPDecoder(nn.Module):
    def __init__(self, dim=32, heads=4, clip=10.0):
        super().__init__()
        self.dim, self.heads, self.clip = dim, heads, clip
        self.node_proj = nn.Linear(dim, 3 * dim, bias=False)   # glimpse K, glimpse V, logit K
        self.graph_proj = nn.Linear(dim, dim, bias=False)
        self.step_proj = nn.Linear(2 * dim, dim, bias=False)
        self.glimpse_out = nn.Linear(dim, dim, bias=False)
        self.placeholder = nn.Parameter(torch.randn(2 * dim) * 0.1)

    def precompute(self, nodes):
        gk, gv, lk = self.node_proj(nodes).chunk(3, dim=-1)
        return self.graph_proj(nodes.mean(1)), gk, gv, lk

    def forward(self, cache, nodes, first, last, visited):
        """Un paso: log-probabilidades (B, N) de la siguiente ciudad.

        visited: (B, N) bool, True para las ciudades ya visitadas.
        first / last: índices (B,) o None en el primer paso.
        """
        graph, gk, gv, lk = cache
        B, N, D = nodes.shape
        if first is None:
            step = self.placeholder.expand(B, -1)
        else:
            r = torch.arange(B, device=nodes.device)
            step = torch.cat([nodes[r, first], nodes[r, last]], dim=-1)
        q = graph + self.step_proj(step)

        dk = D // self.heads
        qh = q.view(B, self.heads, 1, dk)
        kh = gk.view(B, N, self.heads, dk).transpose(1, 2)
        vh = gv.view(B, N, self.heads, dk).transpose(1, 2)
        compat = (qh @ kh.transpose(2, 3)) / math.sqrt(dk)
        compat = compat.masked_fill(visited[:, None, None, :], -math.inf)
        glimpse = (compat.softmax(-1) @ vh).transpose(1, 2).reshape(B, D)
        glimpse = self.glimpse_out(glimpse)

        logits = torch.einsum('bd,bnd->bn', glimpse, lk) / math.sqrt(D)
        logits = self.clip * torch.tanh(logits)
        logits = logits.masked_fill(visited, -math.inf)
        return torch.log_softmax(logits, dim=-1)

    @torch.no_grad()
    def decode(self, nodes):
        B, N, _ = nodes.shape
        cache, visited = self.precompute(nodes), torch.zeros(B, N, dtype=torch.bool)
        first = last = None
        tour, total = [], nodes.new_zeros(B)
        for _ in range(N):
            lp, last_idx = self(cache, nodes, first, last, visited).max(-1)
            total, last = total + lp, last_idx
            first = last if first is None else first
            visited = visited.scatter(1, last[:, None], True)
            tour.append(last)
        return torch.stack(tour, 1), total
