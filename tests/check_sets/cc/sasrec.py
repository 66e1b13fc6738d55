"""Sequential recommender in the manner of SASRec.

Histories are padded on the LEFT with item 0.  A place sees itself and the items before
it; padding is never seen.  The rows of padding, that see nothing, are set to
zero at the end of each block.
"""
import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, d, heads, p):
        super().__init__()
        self.heads = heads
        self.ln_q, self.ln_f = nn.LayerNorm(d), nn.LayerNorm(d)
        self.wq = nn.Linear(d, d)
        self.wk = nn.Linear(d, d)
        self.wv = nn.Linear(d, d)
        self.ffn = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Dropout(p), nn.Linear(d, d))
        self.drop = nn.Dropout(p)

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, real):
        # x [B, L, d]; real [B, L] true on items
        L = x.size(1)
        # queries are normalised, keys and values are the raw sequence (as in the paper's code)
        q_in = self.ln_q(x)
        q, k, v = self.split(self.wq(q_in)), self.split(self.wk(x)), self.split(self.wv(x))
        s = q @ k.transpose(-1, -2) / (q.size(-1) ** 0.5)
        see = torch.ones(L, L, dtype=torch.bool, device=x.device).tril()
        see = see & real[:, None, None, :]
        s = s.masked_fill(~see, -1e9)
        a = self.drop(s.softmax(-1))
        o = (a @ v).transpose(1, 2).flatten(2)
        x = q_in + o
        x = x + self.drop(self.ffn(self.ln_f(x)))
        return x * real.unsqueeze(-1)


class SASRec(nn.Module):
    def __init__(self, n_items, max_len=20, d=32, heads=2, blocks=2, p=0.2):
        super().__init__()
        self.items = nn.Embedding(n_items + 1, d, padding_idx=0)
        self.places = nn.Embedding(max_len, d)
        self.blocks = nn.ModuleList([Block(d, heads, p) for _ in range(blocks)])
        self.last = nn.LayerNorm(d)
        self.drop = nn.Dropout(p)
        self.d = d

    def encode(self, seq):
        real = seq != 0
        x = self.items(seq) * self.d ** 0.5
        x = x + self.places(torch.arange(seq.size(1), device=seq.device))
        x = self.drop(x) * real.unsqueeze(-1)
        for b in self.blocks:
            x = b(x, real)
        return self.last(x)

    def forward(self, seq):
        """scores of all items for the place after the last, [B, n_items + 1]"""
        return self.encode(seq)[:, -1] @ self.items.weight.T
