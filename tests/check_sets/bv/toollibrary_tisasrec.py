"""Next-loan recommendation for a neighbourhood tool library.

Time-interval aware self-attention (TiSASRec): besides the items, the gap in days
between two loans has its own key and value embedding.  Sequences are LEFT padded
with item 0; padded steps never serve as keys and their output is zeroed.
"""
import torch
from torch import nn


def gap_matrix(days: torch.Tensor, span: int) -> torch.Tensor:
    """days: [B, L] integer day numbers -> clipped |d_i - d_j|, [B, L, L]."""
    return (days[:, :, None] - days[:, None, :]).abs().clamp(max=span)


class GapAttention(nn.Module):
    def __init__(self, hidden, heads, max_len, span, p=0.2):
        super().__init__()
        self.h, self.d = heads, hidden // heads
        self.Q = nn.Linear(hidden, hidden)
        self.K = nn.Linear(hidden, hidden)
        self.V = nn.Linear(hidden, hidden)
        self.pos_k, self.pos_v = nn.Embedding(max_len, hidden), nn.Embedding(max_len, hidden)
        self.gap_k, self.gap_v = nn.Embedding(span + 1, hidden), nn.Embedding(span + 1, hidden)
        self.drop = nn.Dropout(p)

    def forward(self, x, gaps, is_pad):
        """x: [B, L, hidden], gaps: [B, L, L] long, is_pad: [B, L] bool, True at padding."""
        B, L, _ = x.shape
        heads = lambda t: t.view(*t.shape[:-1], self.h, self.d)
        step = torch.arange(L, device=x.device)
        q = heads(self.Q(x))
        k = heads(self.K(x) + self.pos_k(step))
        v = heads(self.V(x) + self.pos_v(step))
        gk, gv = heads(self.gap_k(gaps)), heads(self.gap_v(gaps))     # [B, L, L, h, d]

        w = torch.einsum("bihd,bjhd->bhij", q, k) + torch.einsum("bihd,bijhd->bhij", q, gk)
        w = w / self.d ** 0.5
        blocked = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1) | is_pad[:, None, None, :]
        w = w.masked_fill(blocked, torch.finfo(w.dtype).min)
        w = self.drop(w.softmax(-1))

        y = torch.einsum("bhij,bjhd->bihd", w, v) + torch.einsum("bhij,bijhd->bihd", w, gv)
        return y.reshape(B, L, -1).masked_fill(is_pad[..., None], 0.0)


class ToolRec(nn.Module):
    def __init__(self, n_tools, hidden=24, heads=2, max_len=20, span=90, layers=2):
        super().__init__()
        self.item = nn.Embedding(n_tools + 1, hidden, padding_idx=0)
        self.span = span
        self.attn = nn.ModuleList(GapAttention(hidden, heads, max_len, span) for _ in range(layers))
        self.ln = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden)) for _ in range(layers)
        )

    def forward(self, items, days):
        pad = items.eq(0)
        gaps = gap_matrix(days, self.span)
        x = self.item(items)
        for a, n, f in zip(self.attn, self.ln, self.ff):
            x = x + a(n(x), gaps, pad)
            x = (x + f(x)).masked_fill(pad[..., None], 0.0)
        return x[:, -1] @ self.item.weight.T


if __name__ == "__main__":
    net = ToolRec(50).eval()
    print(net(torch.tensor([[0, 0, 4, 9], [3, 7, 7, 1]]), torch.tensor([[0, 0, 3, 40], [1, 2, 30, 31]])).shape)
