"""Couche « graph transformer » creuse, sans bibliothèque de graphes.

Pour chaque arête j -> i (source, cible) munie d'un vecteur e_ij :

    score_ij = q_i . (k_j + W_e e_ij) / sqrt(d)
    a_ij     = softmax sur les arêtes qui entrent en i
    m_i      = somme_j a_ij (v_j + W_e e_ij)

puis une porte résiduelle (Shi et al. 2021) :
    beta_i = sigmoid(w_b . [m_i ; r_i ; m_i - r_i]),  r_i = W_r x_i
    sortie = beta_i r_i + (1 - beta_i) m_i

EdgeTransformer(c_in, c_out, c_edge, heads) : c_out est la largeur d'une tête,
la sortie a heads * c_out canaux.
    x      (N, c_in)
    edges  (2, E) entiers, ligne 0 = sources, ligne 1 = cibles
    e      (E, c_edge)
Un nœud sans arête entrante a m_i = 0.
"""
import torch
from torch import nn


def edge_softmax(score, target, n):
    """softmax par cible ; score (E, H), target (E,)"""
    where = target[:, None].expand_as(score)
    top = score.new_full((n, score.size(1)), float("-inf"))
    top = top.scatter_reduce(0, where, score, reduce="amax")
    ex = torch.exp(score - top[target])
    total = torch.zeros_like(top).index_add(0, target, ex)
    return ex / total[target]


class EdgeTransformer(nn.Module):
    def __init__(self, c_in, c_out, c_edge, heads=2, dropout=0.0):
        super().__init__()
        self.H, self.d = heads, c_out
        hd = heads * c_out
        self.q = nn.Linear(c_in, hd)
        self.k = nn.Linear(c_in, hd)
        self.v = nn.Linear(c_in, hd)
        self.e = nn.Linear(c_edge, hd, bias=False)
        self.r = nn.Linear(c_in, hd)
        self.beta = nn.Linear(3 * hd, 1, bias=False)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, edges, e):
        n = x.size(0)
        src, dst = edges
        q = self.q(x).view(n, self.H, self.d)
        k = self.k(x).view(n, self.H, self.d)
        v = self.v(x).view(n, self.H, self.d)
        ee = self.e(e).view(-1, self.H, self.d)

        score = (q[dst] * (k[src] + ee)).sum(-1) / self.d ** 0.5
        a = self.drop(edge_softmax(score, dst, n))              # (E, H)
        msg = a.unsqueeze(-1) * (v[src] + ee)
        m = torch.zeros_like(v).index_add(0, dst, msg).flatten(1)

        r = self.r(x)
        b = torch.sigmoid(self.beta(torch.cat([m, r, m - r], dim=-1)))
        return b * r + (1 - b) * m
