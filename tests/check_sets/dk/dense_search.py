"""Bi-encoder for the intranet search (one transformer layer, mean pooling).

tokenise(texts, vocab) -> {"ids": [B, L] int, "attention_mask": [B, L] 1 = token, 0 = pad}
Encoder(...)(ids, attention_mask) -> unit vectors [B, dim]

Only real tokens are attended to and averaged; the vector of a text must therefore not
change when it is put in a batch with longer texts.  Every text has at least one token.
"""
import torch
from torch import nn
import torch.nn.functional as F


def tokenise(texts, vocab):
    rows = [[vocab.get(w, 1) for w in t.lower().split()] for t in texts]
    L = max(map(len, rows))
    ids = torch.zeros(len(rows), L, dtype=torch.long)
    for i, r in enumerate(rows):
        ids[i, : len(r)] = torch.tensor(r)
    return {"ids": ids, "attention_mask": (ids > 0).long()}


def extend(attention_mask, dtype):
    """[B, L] of 1/0 -> additive [B, 1, 1, L]: 0 for tokens, -inf for padding"""
    ext = torch.zeros(attention_mask.shape, dtype=dtype, device=attention_mask.device)
    return ext.masked_fill(attention_mask == 0, float("-inf"))[:, None, None, :]


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, mask):
        B, L, D = x.shape
        split = lambda t: t.view(B, L, self.heads, -1).transpose(1, 2)
        a = F.scaled_dot_product_attention(
            split(self.q(x)), split(self.k(x)), split(self.v(x)),
            attn_mask=mask.bool())
        x = self.n1(x + self.o(a.transpose(1, 2).reshape(B, L, D)))
        return self.n2(x + self.ff(x))


class Encoder(nn.Module):
    def __init__(self, n_words, dim=32, heads=4):
        super().__init__()
        self.emb = nn.Embedding(n_words, dim)
        self.layer = Layer(dim, heads)

    def forward(self, ids, attention_mask):
        x = self.emb(ids)
        x = self.layer(x, extend(attention_mask, x.dtype))
        w = attention_mask.unsqueeze(-1).to(x.dtype)
        return F.normalize((x * w).sum(1) / w.sum(1), dim=-1)


def rank(query_vec, doc_vecs, k=10):
    return (doc_vecs @ query_vec).topk(min(k, len(doc_vecs)))
