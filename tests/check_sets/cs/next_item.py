import torch
from torch import nn


class SessionAttention(nn.Module):
    """One self-attention layer of a sequential recommender (SASRec-like).

    item_ids: (B, L) long, 0 = padding, histories are padded on the LEFT.
    Position i sees real items at positions <= i.  Padded positions have nothing
    to see; their output is exactly zero.
    """

    def __init__(self, n_items, dim=16, heads=2, max_len=50):
        super().__init__()
        self.item = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.place = nn.Embedding(max_len, dim)
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.heads = heads

    def forward(self, item_ids):
        B, L = item_ids.shape
        x = self.item(item_ids) + self.place(torch.arange(L, device=item_ids.device))
        split = lambda t: t.reshape(B, L, self.heads, -1).permute(0, 2, 1, 3)
        q, k, v = split(self.wq(x)), split(self.wk(x)), split(self.wv(x))
        real = item_ids.ne(0)
        allowed = torch.ones(L, L, dtype=torch.bool, device=x.device).tril()
        allowed = allowed[None, None] & real[:, None, None, :]
        scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        w = torch.softmax(scores, -1)
        w = w.masked_fill(~allowed, 0.0)
        return (w @ v).permute(0, 2, 1, 3).reshape(B, L, -1)
