"""Anomaly score for log streams, with causal linear attention (no quadratic memory).

    phi(x) = elu(x) + 1
    y_i = sum_{j<=i} (phi(q_i).phi(k_j)) v_j  /  sum_{j<=i} phi(q_i).phi(k_j)

There is no softmax here (Katharopoulos et al. 2020); phi is positive so that the
weights of a line are positive and sum to one.

LogStream(n_templates, dim, heads).forward(ids): ids [B, T] template ids, T lines of
one service in order (no padding) -> logits [B, T, n_templates] for the NEXT line.
surprise(ids) -> [B, T-1] negative log likelihood of lines 1..T-1.
"""
import torch
from torch import nn
import torch.nn.functional as F


def phi(x):
    return F.elu(x) + 1.0


def causal_linear(q, k, v, eps=1e-6):
    """q, k [B, T, H, d], v [B, T, H, m] -> [B, T, H, m]"""
    q, k = phi(q), phi(k)
    kv = torch.einsum("bthd,bthm->bthdm", k, v).cumsum(dim=1)
    norm = torch.einsum("bthd,bthd->bth", q, k.cumsum(dim=1))
    return torch.einsum("bthd,bthdm->bthm", q, kv) / (norm + eps).unsqueeze(-1)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.to_o = nn.Linear(dim, dim)

    def forward(self, x):
        h = self.ln(x)
        cut = lambda t: t.unflatten(-1, (self.heads, -1))
        y = causal_linear(cut(self.to_q(h)), cut(self.to_k(h)), cut(self.to_v(h)))
        return x + self.to_o(y.flatten(2))


class LogStream(nn.Module):
    def __init__(self, n_templates, dim=32, heads=4, depth=2):
        super().__init__()
        self.emb = nn.Embedding(n_templates, dim)
        self.layers = nn.Sequential(*[Layer(dim, heads) for _ in range(depth)])
        self.out = nn.Linear(dim, n_templates)

    def forward(self, ids):
        return self.out(self.layers(self.emb(ids)))

    def surprise(self, ids):
        logits = self.forward(ids)[:, :-1]
        return F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
