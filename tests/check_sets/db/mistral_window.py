import torch
from torch import nn
import torch.nn.functional as F


class SlidingHead(nn.Module):
    """Sliding-window causal attention, as in Mistral.

    A token attends to exactly `window` tokens: itself and the window - 1 tokens just
    before it (fewer at the beginning). x: (B, T, dim).
    """

    def __init__(self, dim=32, n_heads=4, n_kv=2, window=3):
        super().__init__()
        self.n_heads, self.n_kv, self.window = n_heads, n_kv, window
        hd = dim // n_heads
        self.wq = nn.Linear(dim, n_heads * hd, bias=False)
        self.wk = nn.Linear(dim, n_kv * hd, bias=False)
        self.wv = nn.Linear(dim, n_kv * hd, bias=False)
        self.wo = nn.Linear(n_heads * hd, dim, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.n_heads, -1).transpose(1, 2)
        k = self.wk(x).view(B, T, self.n_kv, -1).transpose(1, 2)
        v = self.wv(x).view(B, T, self.n_kv, -1).transpose(1, 2)
        k = k.repeat_interleave(self.n_heads // self.n_kv, dim=1)
        v = v.repeat_interleave(self.n_heads // self.n_kv, dim=1)
        i = torch.arange(T, device=x.device)
        back = i[:, None] - i[None, :]
        allowed = (back >= 0) & (back <= self.window)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.wo(y.transpose(1, 2).flatten(2))
