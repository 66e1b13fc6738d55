"""Local transformer for drum patterns.

events (B, L) long -> logits (B, L, vocab) of the next event.

`window` is the number of events a position can see, counting itself: with window=1 an
event sees only itself, with window=W event i sees i-W+1 .. i.  Later events are hidden.
Long pieces are handled with a dense L x L mask, L is at most a few hundred here.
"""
import torch
from torch import nn
import torch.nn.functional as F


class LocalAttention(nn.Module):
    def __init__(self, dim, heads, window, dropout=0.0):
        super().__init__()
        self.heads, self.window, self.dropout = heads, window, dropout
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def band(self, n, device):
        i = torch.arange(n, device=device)
        dist = i[:, None] - i[None, :]
        return (dist >= 0) & (dist <= self.window)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = [t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)]
        y = F.scaled_dot_product_attention(
            q, k, v,
            attn_mask=self.band(n, x.device),
            dropout_p=self.dropout if self.training else 0.0,
        )
        return self.out(y.transpose(1, 2).reshape(b, n, c))


class DrumModel(nn.Module):
    def __init__(self, vocab, dim=64, heads=4, window=16, depth=3, max_len=512):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.beat = nn.Embedding(16, dim)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(nn.ModuleDict({
                "n1": nn.LayerNorm(dim), "att": LocalAttention(dim, heads, window),
                "n2": nn.LayerNorm(dim),
                "ff": nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)),
            }))
        self.head = nn.Linear(dim, vocab)

    def forward(self, events):
        n = events.size(1)
        x = self.tok(events) + self.beat(torch.arange(n, device=events.device) % 16)
        for l in self.layers:
            x = x + l["att"](l["n1"](x))
            x = x + l["ff"](l["n2"](x))
        return self.head(x)
