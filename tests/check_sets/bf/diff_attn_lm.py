import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def lambda_init_fn(depth: int) -> float:
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class HeadNorm(nn.Module):
    """RMS norm over the last dim, own gain."""

    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class MultiheadDiffAttn(nn.Module):
    """Differential Transformer (Ye et al. 2024).  Two softmax maps per head are
    subtracted; so rows sum to 1 - lambda, and weights may be negative. Causal.

    head_dim is the width of ONE of the two maps, values are twice as wide.
    """

    def __init__(self, embed_dim, num_heads, depth=1):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads // 2
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.lambda_init = lambda_init_fn(depth)
        mk = lambda: nn.Parameter(torch.randn(self.head_dim) * 0.1)
        self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2 = mk(), mk(), mk(), mk()
        self.subln = HeadNorm(2 * self.head_dim)

    def lam(self):
        a = torch.exp((self.lambda_q1 * self.lambda_k1).sum())
        b = torch.exp((self.lambda_q2 * self.lambda_k2).sum())
        return a - b + self.lambda_init

    def forward(self, x):
        bsz, n, dim = x.shape
        h, d = self.num_heads, self.head_dim
        q = self.q_proj(x).view(bsz, n, 2 * h, d).transpose(1, 2)
        k = self.k_proj(x).view(bsz, n, 2 * h, d).transpose(1, 2)
        v = self.v_proj(x).view(bsz, n, h, 2 * d).transpose(1, 2)
        w = torch.matmul(q * d ** -0.5, k.transpose(-1, -2))
        causal = torch.triu(torch.full((n, n), float("-inf"), device=x.device), 1)
        w = F.softmax(w + causal, dim=-1, dtype=torch.float32).type_as(w)
        w = w.view(bsz, h, 2, n, n)
        w = w[:, :, 0] - self.lam() * w[:, :, 1]
        o = self.subln(w @ v) * (1 - self.lambda_init)
        return self.out_proj(o.transpose(1, 2).reshape(bsz, n, dim))


if __name__ == "__main__":
    m = MultiheadDiffAttn(32, 4)
    print(m(torch.randn(2, 7, 32)).shape, float(m.lam()))
