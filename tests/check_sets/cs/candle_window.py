import torch
from torch import nn


class CandleAttention(nn.Module):
    """Causal sliding-window attention over price candles, x (B, T, C).

    Each candle attends to exactly ``window`` candles (fewer at the start of the
    series): itself and the window - 1 candles before it.
    """

    def __init__(self, c, window, heads=2):
        super().__init__()
        self.window, self.heads = window, heads
        self.qkv = nn.Linear(c, 3 * c, bias=False)
        self.out = nn.Linear(c, c, bias=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = [t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(C, -1)]
        i = torch.arange(T, device=x.device).unsqueeze(1)
        j = torch.arange(T, device=x.device).unsqueeze(0)
        ok = (j <= i) & (i - j <= self.window)
        s = q @ k.transpose(-1, -2) * q.size(-1) ** -0.5
        p = torch.where(ok, s, float("-inf")).softmax(-1)
        return self.out((p @ v).transpose(1, 2).reshape(B, T, C))
