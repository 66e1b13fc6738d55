"""SASRec-like next item model for a grocery shop. Baskets are left-padded with item 0."""
import torch
import torch.nn as nn


class History:
    """Turns {user: [item, ...]} into fixed-size arrays."""

    def __init__(self, logs, maxlen):
        self.logs, self.maxlen = logs, maxlen
        self.n_items = max(max(v) for v in logs.values())

    def batch(self, users):
        x = torch.zeros(len(users), self.maxlen, dtype=torch.long)
        for r, u in enumerate(users):
            h = self.logs[u][-self.maxlen:]
            x[r, self.maxlen - len(h):] = torch.tensor(h)
        return x


class PointWise(nn.Module):
    def __init__(self, hidden, p):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(p), nn.Linear(hidden, hidden), nn.Dropout(p))

    def forward(self, x):
        return x + self.net(x)


class HistoryLayer(nn.Module):
    """One causal self-attention layer over a user's items; x is [users, maxlen, hidden]."""

    def __init__(self, hidden, heads, p=0.2):
        super().__init__()
        self.norm = nn.LayerNorm(hidden, eps=1e-8)
        self.mha = nn.MultiheadAttention(hidden, heads, dropout=p)
        self.ffn = PointWise(hidden, p)
        self.ffn_norm = nn.LayerNorm(hidden, eps=1e-8)

    def forward(self, x):
        n = x.size(0)
        future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        q = self.norm(x)
        y, _ = self.mha(q, x, x, attn_mask=future, need_weights=False)
        return self.ffn(self.ffn_norm(q + y))


class NextBasket(nn.Module):
    def __init__(self, n_items, maxlen=50, hidden=50, heads=1, layers=2, p=0.2):
        super().__init__()
        self.item = nn.Embedding(n_items + 1, hidden, padding_idx=0)
        self.place = nn.Embedding(maxlen, hidden)
        self.drop = nn.Dropout(p)
        self.layers = nn.ModuleList(HistoryLayer(hidden, heads, p) for _ in range(layers))
        self.last = nn.LayerNorm(hidden, eps=1e-8)

    def forward(self, seqs):
        x = self.item(seqs) * self.item.embedding_dim ** 0.5
        x = self.drop(x + self.place.weight[: seqs.size(1)])
        real = (seqs > 0).unsqueeze(-1)
        x = x * real
        for l in self.layers:
            x = l(x) * real
        return self.last(x)

    def loss(self, seqs, pos, neg):
        h = self(seqs)
        p = (h * self.item(pos)).sum(-1)
        n = (h * self.item(neg)).sum(-1)
        m = pos > 0
        return -(nn.functional.logsigmoid(p[m]).mean() + nn.functional.logsigmoid(-n[m]).mean())

    def recommend(self, seqs, k=10):
        h = self(seqs)[:, -1]
        s = h @ self.item.weight.T
        s[:, 0] = -float("inf")
        return s.topk(k, -1).indices
