import math

import torch
from torch import nn


class MultiheadDiffAttn(nn.Module):
    """Differential transformer (Ye et al. 2024), causal.  x (bsz, len, embed_dim).

    A head has two maps, and the second is taken from the first lambda times, so that what is left of the weights is
    partly negative and sums to 1 - lambda and not to 1.  That is the idea, not an error.
    """

    def __init__(self, embed_dim, num_heads, depth=1):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads // 2
        self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * depth)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(embed_dim, embed_dim, bias=False) for _ in range(4)
        )
        self.lq1, self.lk1, self.lq2, self.lk2 = (
            nn.Parameter(0.1 * torch.randn(self.head_dim)) for _ in range(4)
        )
        self.subln = nn.RMSNorm(2 * self.head_dim, eps=1e-5, elementwise_affine=False)

    def forward(self, x):
        bsz, n, _ = x.shape
        q = self.q_proj(x).view(bsz, n, 2 * self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(bsz, n, 2 * self.num_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(bsz, n, self.num_heads, 2 * self.head_dim).transpose(1, 2)

        s = q @ k.transpose(-1, -2) / math.sqrt(self.head_dim)
        s = s + torch.triu(torch.full((n, n), float("-inf"), dtype=x.dtype, device=x.device), 1)
        a = torch.softmax(s, -1).view(bsz, self.num_heads, 2, n, n)
        lam = torch.exp(self.lq1 @ self.lk1) - torch.exp(self.lq2 @ self.lk2) + self.lambda_init
        a = a[:, :, 0] - lam * a[:, :, 1]
        out = self.subln(a @ v) * (1 - self.lambda_init)
        return self.out_proj(out.transpose(1, 2).reshape(bsz, n, -1))
