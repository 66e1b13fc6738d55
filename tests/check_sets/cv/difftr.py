import math
import torch
import torch.nn as nn


class DiffAttn(nn.Module):
    """Causal multi-head differential attention (Ye et al., 2024).

    head output = (softmax(q1 k1^T/sqrt(d)) - lam * softmax(q2 k2^T/sqrt(d))) v
    with v of width 2d, then RMSNorm per head times (1 - lam_init).
    x: (B, T, E); E = heads * 2d.
    """

    def __init__(self, E=48, heads=3, depth=2):
        super().__init__()
        self.heads = heads
        self.d = E // heads // 2
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(E, E, bias=False) for _ in range(4))
        self.lam_init = 0.8 - 0.6 * math.exp(-0.3 * depth)
        self.lq1 = nn.Parameter(torch.randn(self.d) * 0.1)
        self.lk1 = nn.Parameter(torch.randn(self.d) * 0.1)
        self.lq2 = nn.Parameter(torch.randn(self.d) * 0.1)
        self.lk2 = nn.Parameter(torch.randn(self.d) * 0.1)
        self.g = nn.Parameter(torch.ones(2 * self.d))

    def forward(self, x):
        B, T, E = x.shape
        h, d = self.heads, self.d
        q = self.wq(x).view(B, T, h, 2, d).permute(0, 2, 3, 1, 4)   # B h 2 T d
        k = self.wk(x).view(B, T, h, 2, d).permute(0, 2, 3, 4, 1)   # B h 2 d T
        v = self.wv(x).view(B, T, h, 2 * d).transpose(1, 2)         # B h T 2d

        s = (q * d ** -0.5) @ k
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        a = s.masked_fill(future, float("-inf")).softmax(-1)

        lam = torch.exp(self.lq1 @ self.lk1) - torch.exp(self.lq2 @ self.lk2) + self.lam_init
        # a row of the difference sums to 1 - lam, and may be negative; that is meant
        o = (a[:, :, 0] - lam * a[:, :, 1]) @ v
        o = o * torch.rsqrt(o.pow(2).mean(-1, keepdim=True) + 1e-5) * self.g
        o = o * (1 - self.lam_init)
        return self.wo(o.transpose(1, 2).reshape(B, T, E))
