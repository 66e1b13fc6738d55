"""Local attention layer, Gemma-2 style, in PyTorch.

Every second layer of the model is local: token i attends to `window` tokens, namely
itself and the window - 1 tokens before it (i - window < j <= i).

Logits are q.k * query_scale, squashed into (-cap, cap) by cap * tanh(logits / cap), and then
masked; masked positions have weight 0. `query_scale` is query_pre_attn_scalar ** -0.5 of
the config. RMS norms with (1 + weight) before and after the attention, as in the
released checkpoint.

    x (B, T, dim) -> (B, T, dim)
    n_kv heads of keys and values; consecutive query heads share one
"""
import torch
import torch.nn as nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        n = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return n * (1 + self.weight)


class LocalAttention(nn.Module):
    def __init__(self, dim=48, n_heads=4, n_kv=2, head_dim=16, window=4, cap=5.0, query_pre_attn_scalar=16):
        super().__init__()
        self.n_heads, self.n_kv, self.head_dim = n_heads, n_kv, head_dim
        self.window, self.cap = window, cap
        self.query_scale = query_pre_attn_scalar ** -0.5
        self.pre, self.post = RMSNorm(dim), RMSNorm(dim)
        self.q_proj = nn.Linear(dim, n_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(dim, n_kv * head_dim, bias=False)
        self.v_proj = nn.Linear(dim, n_kv * head_dim, bias=False)
        self.o_proj = nn.Linear(n_heads * head_dim, dim, bias=False)

    def local_mask(self, T, device):
        i = torch.arange(T, device=device)[:, None]
        j = torch.arange(T, device=device)[None, :]
        return (j <= i) & (i - j <= self.window)

    def forward(self, x):
        B, T, _ = x.shape
        h = self.pre(x)
        q = self.q_proj(h).view(B, T, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(h).view(B, T, self.n_kv, self.head_dim).transpose(1, 2)
        v = self.v_proj(h).view(B, T, self.n_kv, self.head_dim).transpose(1, 2)
        k = k.repeat_interleave(self.n_heads // self.n_kv, dim=1)
        v = v.repeat_interleave(self.n_heads // self.n_kv, dim=1)

        scores = torch.matmul(q * self.query_scale, k.mT)
        scores = scores.masked_fill(~self.local_mask(T, x.device), -2.3819763e38)
        scores = self.cap * torch.tanh(scores / self.cap)
        probs = torch.softmax(scores, dim=-1)
        y = torch.matmul(probs, v).transpose(1, 2).reshape(B, T, -1)
        return x + self.post(self.o_proj(y))
