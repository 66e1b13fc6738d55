"""Cross encoder for re-ranking (query, passage) pairs of the law library."""
import torch
from torch import nn


def pad_batch(rows, pad=0):
    n = max(map(len, rows))
    ids = torch.full((len(rows), n), pad, dtype=torch.long)
    for i, r in enumerate(rows):
        ids[i, : len(r)] = torch.tensor(r)
    return ids


class PairAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.proj_in = nn.ModuleDict({n: nn.Linear(d, d) for n in "qkv"})
        self.proj_out = nn.Linear(d, d)

    def forward(self, x, is_token):
        """is_token: (batch, len) bool.  No word may take anything from a position that is no token."""
        b, n, d = x.shape
        q, k, v = [self.proj_in[c](x).reshape(b, n, self.h, d // self.h).transpose(1, 2) for c in "qkv"]
        dots = torch.einsum("bhid,bhjd->bhij", q, k) / (d // self.h) ** 0.5
        keep = is_token[:, None, :, None]
        dots = dots.masked_fill(~keep, torch.finfo(dots.dtype).min)
        w = dots.softmax(dim=-1)
        y = torch.einsum("bhij,bhjd->bhid", w, v)
        return self.proj_out(y.transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.att, self.n1, self.n2 = PairAttention(d, h), nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, is_token):
        x = self.n1(x + self.att(x, is_token))
        return self.n2(x + self.ff(x))


class Reranker(nn.Module):
    def __init__(self, vocab, d=32, h=4, layers=2, max_len=128):
        super().__init__()
        self.tok, self.seg = nn.Embedding(vocab, d, padding_idx=0), nn.Embedding(2, d)
        self.pos = nn.Embedding(max_len, d)
        self.layers = nn.ModuleList([Layer(d, h) for _ in range(layers)])
        self.score = nn.Linear(d, 1)

    def forward(self, ids, seg):
        x = self.tok(ids) + self.seg(seg) + self.pos.weight[: ids.size(1)]
        for l in self.layers:
            x = l(x, ids.ne(0))
        return self.score(x[:, 0]).squeeze(-1)


def listwise_loss(scores, gold, per_query):
    s = scores.view(-1, per_query)
    return nn.functional.cross_entropy(s, gold)
