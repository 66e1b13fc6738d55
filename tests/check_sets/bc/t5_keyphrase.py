# Schlüsselwort-Extraktion mit einem kleinen T5-Encoder.
# Gewichte kommen aus dem Original-Checkpoint, daher alle Eigenheiten beibehalten.
import math

import torch
from torch import nn


def rel_bucket(rel, num_buckets=32, max_distance=128):
    """Zweiseitige Eimer; rel = Schlüsselposition - Abfrageposition."""
    num_buckets //= 2
    out = (rel > 0).long() * num_buckets
    n = rel.abs()
    max_exact = num_buckets // 2
    large = max_exact + (
        torch.log(n.float().clamp(min=1) / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)
    ).long()
    large = large.clamp(max=num_buckets - 1)
    return out + torch.where(n < max_exact, n, large)


class T5StyleAttention(nn.Module):
    """Wie im T5-Papier: KEINE Division durch sqrt(d_kv), der Faktor steckt in der
    Initialisierung von q. `mask` (B, L): True = gültiges Wortstück."""

    def __init__(self, d_model=24, d_kv=8, n_heads=4, buckets=32):
        super().__init__()
        inner = d_kv * n_heads
        self.n_heads, self.d_kv, self.buckets = n_heads, d_kv, buckets
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(buckets, n_heads)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model**-0.5)
        nn.init.normal_(self.v.weight, std=d_model**-0.5)

    def bias(self, L, device):
        p = torch.arange(L, device=device)
        b = rel_bucket(p[None, :] - p[:, None], self.buckets)
        return self.relative_attention_bias(b).permute(2, 0, 1)[None]

    def forward(self, x, mask=None):
        B, L, _ = x.shape

        def heads(t):
            return t.view(B, L, self.n_heads, self.d_kv).transpose(1, 2)

        scores = torch.einsum("bhid,bhjd->bhij", heads(self.q(x)), heads(self.k(x)))
        scores = scores + self.bias(L, x.device)
        if mask is not None:
            scores = scores.masked_fill(~mask.bool()[:, None, None], torch.finfo(scores.dtype).min)
        w = scores.float().softmax(-1).type_as(scores)
        y = torch.einsum("bhij,bhjd->bihd", w, heads(self.v(x)))
        return self.o(y.reshape(B, L, -1))


class Extractor(nn.Module):
    def __init__(self, vocab=1000, d_model=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model)
        self.att = T5StyleAttention(d_model)
        self.tag = nn.Linear(d_model, 3)  # B, I, O

    def forward(self, ids):
        x = self.emb(ids)
        return self.tag(x + self.att(x, ids != 0))
