# Reproduction of "Differential Transformer" (sec. 2.1), small scale.
# Heads are paired: the model uses h differential heads, each with two
# query/key groups of size d = d_model / (2h) and a value of size 2d.
import math
import torch
from torch import nn
import torch.nn.functional as F


def lambda_init_fn(depth):
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class HeadNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class MultiheadDiffAttn(nn.Module):
    """Causal self attention, x: (bsz, n, d_model)."""

    def __init__(self, d_model, depth, num_heads):
        super().__init__()
        self.h = num_heads
        self.d = d_model // num_heads // 2
        self.scaling = self.d ** -0.5

        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

        self.lambda_init = lambda_init_fn(depth)
        for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
            self.register_parameter(name, nn.Parameter(torch.randn(self.d) * 0.1))
        self.subln = HeadNorm(2 * self.d)

    def forward(self, x):
        bsz, n, _ = x.shape
        q = self.q_proj(x).view(bsz, n, 2 * self.h, self.d).transpose(1, 2)
        k = self.k_proj(x).view(bsz, n, 2 * self.h, self.d).transpose(1, 2)
        v = self.v_proj(x).view(bsz, n, self.h, 2 * self.d).transpose(1, 2)

        logits = torch.matmul(q * self.scaling, k.transpose(-1, -2))
        future = torch.full((n, n), float("-inf"), device=x.device, dtype=logits.dtype).triu(1)
        w = F.softmax(logits + future, dim=-1, dtype=torch.promote_types(torch.float32, logits.dtype)).type_as(logits)

        lam1 = torch.exp(torch.sum(self.lambda_q1 * self.lambda_k1))
        lam2 = torch.exp(torch.sum(self.lambda_q2 * self.lambda_k2))
        lam = lam1 - lam2 + self.lambda_init

        w = w.view(bsz, self.h, 2, n, n)
        w = w[:, :, 0] - lam * w[:, :, 1]

        o = self.subln(torch.matmul(w, v)) * (1 - self.lambda_init)
        o = o.transpose(1, 2).reshape(bsz, n, 2 * self.h * self.d)
        return self.out_proj(o)


class Block(nn.Module):
    def __init__(self, d_model, depth, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.att = MultiheadDiffAttn(d_model, depth, heads)
        self.w1 = nn.Linear(d_model, 3 * d_model)
        self.w2 = nn.Linear(d_model, 3 * d_model)
        self.w3 = nn.Linear(3 * d_model, d_model)

    def forward(self, x):
        x = x + self.att(self.n1(x))
        y = self.n2(x)
        return x + self.w3(F.silu(self.w1(y)) * self.w2(y))


if __name__ == "__main__":
    net = nn.Sequential(*[Block(64, i, 4) for i in range(2)])
    print(net(torch.randn(2, 10, 64)).shape)
