import torch
from torch import nn
from torch.nn import functional as F


class NeighborhoodAttention1d(nn.Module):
    """Attention to the `kernel` positions around each position of (B, C, L); beyond the ends there is nothing to attend to."""

    def __init__(self, channels, heads=2, kernel=3):
        super().__init__()
        self.heads, self.kernel = heads, kernel
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.rpb = nn.Parameter(torch.randn(heads, kernel) * 0.1)

    def forward(self, x):
        B, C, L = x.shape
        d = C // self.heads
        r = self.kernel // 2
        q, k, v = self.qkv(x).view(B, 3, self.heads, d, L).unbind(1)
        k = F.pad(k, (r, r)).unfold(-1, self.kernel, 1)
        v = F.pad(v, (r, r)).unfold(-1, self.kernel, 1)
        inside = F.pad(x.new_ones(L), (r, r)).unfold(0, self.kernel, 1) > 0
        s = (q.unsqueeze(-1) * k).sum(2) * d ** -0.5 + self.rpb[:, None, :]
        a = s.masked_fill(~inside, float("-inf")).softmax(-1)
        return (a.unsqueeze(2) * v).sum(-1).reshape(B, C, L)
