import torch
import torch.nn as nn


class ItemAttention(nn.Module):
    """Multi-head attention over a user's last items.

    seqs: (users, length, dim)
    pad_mask: (users, length) bool, True where the history is filled up with item 0
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.Q, self.K, self.V = (nn.Linear(dim, dim) for _ in range(3))
        self.out = nn.Linear(dim, dim)

    def forward(self, seqs, pad_mask):
        n, t, _ = seqs.shape
        q, k, v = (f(seqs).view(n, t, self.heads, self.d).transpose(1, 2) for f in (self.Q, self.K, self.V))
        logits = q @ k.transpose(-2, -1) / self.d ** 0.5
        future = torch.ones(t, t, dtype=torch.bool, device=seqs.device).triu(1)
        logits = logits.masked_fill(future, -1e9)
        logits = logits.masked_fill(~pad_mask[:, None, None, :], -1e9)
        return self.out((logits.softmax(-1) @ v).transpose(1, 2).reshape(n, t, -1))


class SASRec(nn.Module):
    def __init__(self, items=60, maxlen=12, dim=16, heads=2, blocks=1):
        super().__init__()
        self.item_emb = nn.Embedding(items + 1, dim, padding_idx=0)
        self.pos_emb = nn.Embedding(maxlen, dim)
        self.att = nn.ModuleList(ItemAttention(dim, heads) for _ in range(blocks))
        self.n1 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(blocks))
        self.n2 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(blocks))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim)) for _ in range(blocks))
        self.last = nn.LayerNorm(dim)

    def forward(self, log_seqs, candidates):
        x = self.item_emb(log_seqs) * self.item_emb.embedding_dim ** 0.5
        x = x + self.pos_emb(torch.arange(log_seqs.size(1), device=x.device))
        pad = log_seqs == 0
        for a, n1, n2, f in zip(self.att, self.n1, self.n2, self.ff):
            x = x + a(n1(x), pad)
            x = x + f(n2(x))
        return torch.einsum("ntd,ntcd->ntc", self.last(x), self.item_emb(candidates))
