import torch
import torch.nn as nn


class B4RLayer(nn.Module):
    def __init__(self, size, h, p):
        super().__init__()
        self.h, self.d_k = h, size // h
        self.query, self.key, self.value, self.output = [nn.Linear(size, size) for _ in range(4)]
        self.drop = nn.Dropout(p)
        self.n1, self.n2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.pff = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Dropout(p), nn.Linear(4 * size, size))

    def to_heads(self, t):
        return t.contiguous().view(t.size(0), self.h, t.size(1), self.d_k)

    def forward(self, x, mask):
        B, L, D = x.shape
        q, k, v = self.to_heads(self.query(x)), self.to_heads(self.key(x)), self.to_heads(self.value(x))
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.d_k ** -0.5
        scores = scores * mask
        p_attn = self.drop(torch.softmax(scores, dim=-1))
        z = torch.matmul(p_attn, v).transpose(1, 2).contiguous().view(B, L, D)
        x = self.n1(x + self.drop(self.output(z)))
        return self.n2(x + self.drop(self.pff(x)))


class Bert4Rec(nn.Module):
    """Bidirectional transformer over a user's item history (Sun et al. 2019).

    items (B, L) int64; 0 is padding and is never attended to. Output: scores (B, L, n_items + 2).
    Every head works on its own d_k columns of the projections; scaled dot-product attention.
    """

    def __init__(self, n_items=50, size=32, h=4, layers=2, max_len=30, p=0.1):
        super().__init__()
        self.tok = nn.Embedding(n_items + 2, size, padding_idx=0)
        self.pos = nn.Embedding(max_len, size)
        self.layers = nn.ModuleList(B4RLayer(size, h, p) for _ in range(layers))
        self.out = nn.Linear(size, n_items + 2)

    def forward(self, items):
        mask = (items > 0)[:, None, None, :].float()
        x = self.tok(items) + self.pos(torch.arange(items.size(1), device=items.device))
        for layer in self.layers:
            x = layer(x, mask)
        return self.out(x)
