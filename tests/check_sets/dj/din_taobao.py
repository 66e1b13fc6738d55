"""Deep Interest Network (Zhou et al., KDD 2018), reimplementação para a disciplina.

Unidade de ativação local (fig. 2 do artigo):

    v_U(A) = sum_j a(e_j, v_A) e_j = sum_j w_j e_j
    a(e, v) = MLP([e; v; e - v; e * v])

O artigo (seção 4.3) abandona de propósito a normalização por softmax: sum_j w_j é a
intensidade do interesse do usuário, portanto os w_j não somam 1. Aqui também não.
"""
import torch
import torch.nn as nn


class Dice(nn.Module):
    """Ativação Dice: p(s) s + (1 - p(s)) alpha s,  p = sigmoid do s padronizado."""

    def __init__(self, n):
        super().__init__()
        self.bn = nn.BatchNorm1d(n, affine=False, eps=1e-8)
        self.alpha = nn.Parameter(torch.full((n,), 0.25))

    def forward(self, s):
        p = torch.sigmoid(self.bn(s.flatten(0, -2)).view_as(s))
        return p * s + (1 - p) * self.alpha * s


class DIN(nn.Module):
    """historico (B, L) long, itens clicados, o resto da linha é enchimento;
    tamanho (B,) long, quantos são de verdade (pode ser 0: interesse nulo);
    candidato (B,) long. Retorna o logit do clique, (B,)."""

    def __init__(self, n_itens, d=12):
        super().__init__()
        self.emb = nn.Embedding(n_itens, d)
        self.a1 = nn.Linear(4 * d, 24)
        self.dice = Dice(24)
        self.a2 = nn.Linear(24, 1)
        self.mlp = nn.Sequential(nn.Linear(3 * d, 32), nn.PReLU(), nn.Linear(32, 1))

    def interesse(self, e, v, tamanho):
        v = v.unsqueeze(1).expand_as(e)
        w = self.a2(self.dice(self.a1(torch.cat([e, v, e - v, e * v], dim=-1))))
        valido = torch.arange(e.size(1), device=e.device) < tamanho[:, None]
        w = w * valido.unsqueeze(-1)         # sem softmax: peso zero é ausência
        return (w * e).sum(dim=1)

    def forward(self, historico, tamanho, candidato):
        v = self.emb(candidato)
        u = self.interesse(self.emb(historico), v, tamanho)
        return self.mlp(torch.cat([u, v, u * v], dim=-1)).squeeze(-1)
