"""Молекулярный граф: слой внимания по соседям, плотная матрица смежности (курсовая, 4 курс).

Атом i смотрит только на атомы j, для которых A[i, j] = 1 (сам атом всегда входит):
    e_ij = q_i . k_j / sqrt(d),   alpha_i = softmax по соседям j,   h_i' = sum_j alpha_ij v_j
Атомы, не соединённые с i, получают вес ровно ноль.
"""
import torch
import torch.nn as nn


class SloyGrafa(nn.Module):
    def __init__(self, dim, golov):
        super().__init__()
        self.golov = golov
        self.d = dim // golov
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, A):
        """
        h (B, N, dim) — атомы; A (B, N, N) — 0/1 float, на диагонали единицы
        возвращает (B, N, dim)
        """
        B, N, _ = h.shape
        q = self.q(h).view(B, N, self.golov, self.d).permute(0, 2, 1, 3)
        k = self.k(h).view(B, N, self.golov, self.d).permute(0, 2, 3, 1)
        v = self.v(h).view(B, N, self.golov, self.d).permute(0, 2, 1, 3)
        e = torch.matmul(q, k) / self.d
        e = e * A.unsqueeze(1)
        alpha = torch.softmax(e, dim=-1)
        y = torch.matmul(alpha, v).permute(0, 2, 1, 3).reshape(B, N, -1)
        return self.norm(h + y)


class Molekula(nn.Module):
    def __init__(self, tipov=10, dim=32, golov=4, sloev=2):
        super().__init__()
        self.emb = nn.Embedding(tipov, dim)
        self.sloi = nn.ModuleList([SloyGrafa(dim, golov) for _ in range(sloev)])
        self.vyhod = nn.Linear(dim, 1)

    def forward(self, atomy, A):
        """atomy (B, N) long -> энергия (B,)"""
        h = self.emb(atomy)
        for s in self.sloi:
            h = s(h, A)
        return self.vyhod(h.mean(1)).squeeze(-1)
