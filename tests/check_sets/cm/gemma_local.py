"""Local layer of the soft-capped decoder (Gemma-2 style)."""
import torch
import torch.nn as nn


class LocalSoftcapAttention(nn.Module):
    """Causal sliding-window attention.

    A token sees exactly `window` tokens: itself and the window - 1 before it. Scaled scores pass
    through cap * tanh(score / cap) before the softmax; masked places get no weight.
    pad: optional (B, L) bool, True at padded (left) positions, never attended to.
    """

    def __init__(self, dim=32, heads=4, window=3, cap=5.0):
        super().__init__()
        self.heads, self.window, self.cap = heads, window, cap
        self.d = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, pad=None):
        B, L, D = x.shape
        q, k, v = self.qkv(x).view(B, L, 3, self.heads, self.d).permute(2, 0, 3, 1, 4).unbind(0)
        i = torch.arange(L, device=x.device)
        gap = i[:, None] - i[None, :]
        blocked = (gap < 0) | (gap > self.window)
        blocked = blocked[None, None]
        if pad is not None:
            blocked = blocked | pad[:, None, None, :]
        scores = torch.matmul(q, k.transpose(-1, -2)) * self.d ** -0.5
        scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
        scores = self.cap * torch.tanh(scores / self.cap)
        w = torch.softmax(scores, dim=-1)
        return self.out(torch.matmul(w, v).transpose(1, 2).reshape(B, L, D))
