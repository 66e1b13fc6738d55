"""SAKT: self-attentive knowledge tracing (Pandey & Karypis 2019)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def interaction_ids(q, r, n_skills):
    """q (B, T) skill ids, r (B, T) 0/1 correctness -> 0..2*n_skills-1"""
    return q + n_skills * r


class KTAttention(nn.Module):
    """Queries are the exercises to predict, keys and values the past interactions.

    The caller shifts them: query t is exercise t+1 while key t is interaction t.
    So query t may use keys 0..t (t included) and nothing later.
    """

    def __init__(self, d, heads, dropout):
        super().__init__()
        self.h, self.dk = heads, d // heads
        self.wq, self.wk, self.wv = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.wo = nn.Linear(d, d)
        self.drop = nn.Dropout(dropout)

    def forward(self, query, past):
        B, T, d = query.shape
        q = self.wq(query).view(B, T, self.h, self.dk).transpose(1, 2)
        k = self.wk(past).view(B, T, self.h, self.dk).transpose(1, 2)
        v = self.wv(past).view(B, T, self.h, self.dk).transpose(1, 2)
        s = torch.einsum("bhtd,bhsd->bhts", q, k) * self.dk ** -0.5
        forbidden = torch.ones(T, T, device=s.device).triu(diagonal=1) == 1
        s = s.masked_fill(forbidden, torch.finfo(s.dtype).min)
        a = F.softmax(s, dim=-1)
        y = torch.einsum("bhts,bhsd->bhtd", self.drop(a), v)
        return self.wo(y.transpose(1, 2).reshape(B, T, d)), a


class SAKT(nn.Module):
    def __init__(self, n_skills, d=64, heads=4, max_len=100, dropout=0.2):
        super().__init__()
        self.n_skills = n_skills
        self.M = nn.Embedding(2 * n_skills, d)
        self.E = nn.Embedding(n_skills, d)
        self.P = nn.Parameter(torch.randn(max_len, d) * 0.02)
        self.att = KTAttention(d, heads, dropout)
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ffn = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d, d))
        self.pred = nn.Linear(d, 1)

    def forward(self, q, r):
        """Returns the probability that exercises 1..T-1 are answered rightly, (B, T-1)."""
        past = self.M(interaction_ids(q, r, self.n_skills)[:, :-1])
        past = past + self.P[:past.size(1)]
        nxt = self.E(q[:, 1:])
        y, _ = self.att(nxt, past)
        x = self.ln1(nxt + y)
        x = self.ln2(x + self.ffn(x))
        return torch.sigmoid(self.pred(x)).squeeze(-1)


def kt_loss(p, r, valid):
    """valid (B, T) True for real steps (padding at the end)"""
    v = valid[:, 1:]
    return F.binary_cross_entropy(p[v], r[:, 1:][v].float())
