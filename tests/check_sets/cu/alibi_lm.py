import torch
import torch.nn as nn


class AlibiAttention(nn.Module):
    """Causal multi-head attention with linear biases (ALiBi, Press et al. 2022).

    x: (B, T, C). pad: (B, T) bool, True for padding on the right.
    The number of heads has to be a power of two; slopes are the geometric
    sequence of the paper (8 heads: 1/2, 1/4, ..., 1/256).
    """

    def __init__(self, C=32, H=4, dropout=0.0):
        super().__init__()
        assert H & (H - 1) == 0 and C % H == 0
        self.H = H
        self.kqv = nn.Linear(C, 3 * C)
        self.proj = nn.Linear(C, C)
        self.dropout = dropout
        start = 2.0 ** (-8.0 / H)
        self.register_buffer("m", start ** torch.arange(H).float())

    def forward(self, x, pad=None):
        B, T, C = x.shape
        k, q, v = self.kqv(x).view(B, T, 3, self.H, C // self.H).permute(2, 0, 3, 1, 4)
        pos = torch.arange(T, device=x.device)
        dist = pos[:, None] - pos[None, :]
        bias = -self.m[:, None, None] * dist
        drop = (dist < 0)[None, None]
        if pad is not None:
            drop = drop | pad[:, None, None, :]
        bias = bias[None].masked_fill(drop, torch.finfo(x.dtype).min).expand(B, -1, -1, -1)
        y = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=bias.to(q.dtype), dropout_p=self.dropout if self.training else 0.0)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))
