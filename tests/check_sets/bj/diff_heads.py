# Differential attention, after Ye et al. 2024.  Two softmax maps per head are
# subtracted:  (softmax(q1 k1) - lambda * softmax(q2 k2)) v, then every head is
# normalised (RMS, no gain) and multiplied by (1 - lambda_init).  Rows of the
# resulting map sum to 1 - lambda and entries may be negative; both intended.
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def lambda_init_fn(depth):
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class DiffHeads(nn.Module):
    def __init__(self, embed_dim, num_heads, depth, causal=True):
        super().__init__()
        self.num_heads = num_heads
        self.hd = embed_dim // num_heads // 2
        self.causal = causal
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.lambda_init = lambda_init_fn(depth)
        for n in ("lq1", "lk1", "lq2", "lk2"):
            setattr(self, n, nn.Parameter(torch.empty(self.hd).normal_(0, 0.1)))

    def lam(self):
        a = torch.exp(torch.dot(self.lq1, self.lk1).float())
        b = torch.exp(torch.dot(self.lq2, self.lk2).float())
        return a - b + self.lambda_init

    def forward(self, x, key_padding=None):
        """key_padding: bool [B, T], True where the token is padding."""
        b, t, c = x.shape
        q = self.q_proj(x).view(b, t, 2 * self.num_heads, self.hd).transpose(1, 2)
        k = self.k_proj(x).view(b, t, 2 * self.num_heads, self.hd).transpose(1, 2)
        v = self.v_proj(x).view(b, t, self.num_heads, 2 * self.hd).transpose(1, 2)
        w = (q * self.hd**-0.5) @ k.transpose(-1, -2)
        drop = torch.zeros(b, 1, t, t, dtype=torch.bool, device=x.device)
        if self.causal:
            drop = drop | torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        if key_padding is not None:
            drop = drop | key_padding[:, None, None, :]
        w = w.masked_fill(drop, float("-inf"))
        w = F.softmax(w, dim=-1, dtype=torch.float32).type_as(w)
        w = w.view(b, self.num_heads, 2, t, t)
        w = w[:, :, 0] - self.lam().type_as(w) * w[:, :, 1]
        y = F.rms_norm(w @ v, (2 * self.hd,), eps=1e-5) * (1 - self.lambda_init)
        return self.out_proj(y.transpose(1, 2).reshape(b, t, c))


class SwiGLU(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.a, self.b = nn.Linear(dim, 2 * dim), nn.Linear(dim, 2 * dim)
        self.c = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return self.c(F.silu(self.a(x)) * self.b(x))


class DiffBlock(nn.Module):
    def __init__(self, dim, heads, depth):
        super().__init__()
        self.attn, self.ffn = DiffHeads(dim, heads, depth), SwiGLU(dim)
        self.n1, self.n2 = nn.RMSNorm(dim), nn.RMSNorm(dim)

    def forward(self, x, pad=None):
        x = x + self.attn(self.n1(x), pad)
        return x + self.ffn(self.n2(x))
