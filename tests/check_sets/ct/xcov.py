"""Cross-covariance attention: channels attend to channels (microscopy stacks)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ChannelCovariance(nn.Module):
    """
    x: (B, N, dim) tokens -> (B, N, dim)

    The attention matrix is (width x width) per head, over CHANNELS:
    channel a of the output is a weighted mean of the channels b of the values.
    q and k are brought to unit length along the tokens and each head owns a
    learned temperature, a multiplier of the cosine, starting at `t0`.
    """

    def __init__(self, dim=24, heads=3, t0=2.0):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)
        self.t = nn.Parameter(torch.full((heads, 1, 1), t0))

    def forward(self, x):
        B, N, C = x.shape
        # (3, B, heads, width, N): tokens go last
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 4, 1)
        q, k, v = qkv[0], qkv[1], qkv[2]
        q = F.normalize(q, dim=-1)
        k = F.normalize(k, dim=-1)
        a = (q @ k.transpose(-2, -1)) * self.t
        a = a.softmax(dim=-1)
        y = a @ v                                   # (B, heads, width, N)
        return self.proj(y.permute(0, 3, 1, 2).reshape(B, N, C))
