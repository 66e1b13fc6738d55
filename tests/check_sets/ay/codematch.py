"""Joint encoder for code search: "[q] sort a dict by value [c] def f(d): ..." -> relevance.

Query tokens and code tokens go through one stack; the score is read at position 0.
"""
import math
import re

import torch
from torch import nn

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+|[^\s\w]")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")


def subtokens(code):
    for tok in _TOKEN.findall(code):
        for part in _CAMEL.split(tok):
            if part:
                yield part.lower()


def hash_id(tok, buckets=20000):
    h = 2166136261
    for ch in tok.encode():
        h = ((h ^ ch) * 16777619) & 0xFFFFFFFF
    return 3 + h % buckets


def pack(query, code, max_len=256):
    """0 is padding, 1 opens the query, 2 opens the code."""
    ids = [1] + [hash_id(t) for t in subtokens(query)] + [2] + [hash_id(t) for t in subtokens(code)]
    return ids[:max_len]


def batchify(pairs):
    rows = [pack(q, c) for q, c in pairs]
    n = max(map(len, rows))
    ids = torch.zeros(len(rows), n, dtype=torch.long)
    for i, r in enumerate(rows):
        ids[i, :len(r)] = torch.tensor(r)
    return ids


class FoldedAttention(nn.Module):
    """Self-attention with the heads folded into the batch so that plain bmm does the work.

    x   [B, L, C]
    pad [B, L] bool, True where the token of that sample is padding; no token
        of the sample attends there
    """

    def __init__(self, width, heads, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.dim = width // heads
        self.to_qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)
        self.drop = nn.Dropout(dropout)

    def fold(self, t):
        B, L, _ = t.shape
        t = t.reshape(B, L, self.heads, self.dim).permute(0, 2, 1, 3)
        return t.reshape(B * self.heads, L, self.dim)

    def unfold(self, t, B):
        L = t.shape[1]
        return t.reshape(B, self.heads, L, self.dim).permute(0, 2, 1, 3).reshape(B, L, -1)

    def forward(self, x, pad):
        B = x.shape[0]
        q, k, v = (self.fold(t) for t in self.to_qkv(x).chunk(3, dim=-1))
        sim = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.dim)
        hide = pad.repeat(self.heads, 1).unsqueeze(1)
        sim = sim.masked_fill(hide, torch.finfo(sim.dtype).min)
        att = self.drop(torch.softmax(sim, dim=-1))
        return self.proj(self.unfold(torch.bmm(att, v), B))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.att = FoldedAttention(width, heads)
        self.ff = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, pad):
        x = x + self.att(self.n1(x), pad)
        return x + self.ff(self.n2(x))


class CodeMatcher(nn.Module):
    def __init__(self, width=128, heads=4, depth=4, buckets=20000, max_len=256):
        super().__init__()
        self.tok = nn.Embedding(buckets + 3, width, padding_idx=0)
        self.pos = nn.Embedding(max_len, width)
        self.kind = nn.Embedding(2, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.score = nn.Linear(width, 1)

    def forward(self, ids):
        pad = ids == 0
        is_code = (ids == 2).cumsum(1).clamp(max=1)
        x = self.tok(ids) + self.pos.weight[:ids.shape[1]] + self.kind(is_code)
        for layer in self.layers:
            x = layer(x, pad)
        return self.score(self.norm(x[:, 0])).squeeze(-1)

    @torch.no_grad()
    def rank(self, query, snippets):
        self.eval()
        scores = self(batchify([(query, s) for s in snippets]))
        return scores.argsort(descending=True).tolist()


def pair_loss(model, good, bad, margin=0.3):
    """good, bad: id tensors of the same queries with right and random code."""
    return torch.relu(margin - model(good) + model(bad)).mean()


if __name__ == "__main__":
    m = CodeMatcher()
    print(m.rank("read a json file", ["def loadJson(p): return json.load(open(p))", "x = 1"]))
