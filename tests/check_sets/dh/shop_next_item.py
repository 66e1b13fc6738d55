import torch
from torch import nn
from torch.nn import functional as F


class NextItem(nn.Module):
    """Next-item model for the shop front page.

    history: (B, T) item ids, 0 is padding (on the left)
    returns  (B, T, n_items + 1) scores for the item that follows each position
    """

    def __init__(self, n_items=50, dim=16, heads=2, max_len=32, p=0.2):
        super().__init__()
        self.items = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.place = nn.Embedding(max_len, dim)
        self.heads, self.p = heads, p
        self.ln1, self.ln2, self.ln3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim) for _ in range(4))
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def look_back(self, x, real):
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        logits = q @ k.transpose(-1, -2) / (c // self.heads) ** 0.5
        past = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        ok = past & real[:, None, None, :]
        logits = logits.masked_fill(~ok, torch.finfo(logits.dtype).min)
        w = F.dropout(F.softmax(logits, dim=-1), self.p, training=self.training)
        return self.wo((w @ v).transpose(1, 2).reshape(b, t, c))

    def forward(self, history):
        real = history != 0
        x = self.items(history) + self.place.weight[: history.shape[1]]
        x = x * real[..., None]
        x = x + self.look_back(self.ln1(x), real)
        x = x + F.dropout(self.ff(self.ln2(x)), self.p, training=self.training)
        x = self.ln3(x) * real[..., None]
        return x @ self.items.weight.T
