# Port of the Gemma-2 attention to our little runtime (weights come from the HF checkpoint).
# GQA: consecutive query heads share a kv head.  Order of operations in the reference:
#   scores -> softcap -> mask -> softmax
from types import SimpleNamespace

import torch
import torch.nn as nn

DEFAULT = SimpleNamespace(
    dim=48, n_heads=6, n_kv_heads=3, head_dim=16, query_scalar=16.0, softcap=5.0,   # 5 in our distilled checkpoints
    window=None, theta=10000.0)


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def rope_tables(positions, head_dim, theta, dtype):
    freq = 1.0 / theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    ang = positions.float()[:, None] * freq[None, :]
    ang = torch.cat((ang, ang), dim=-1)
    return ang.cos().to(dtype), ang.sin().to(dtype)


class GemAttention(nn.Module):
    def __init__(self, args=DEFAULT):
        super().__init__()
        self.args = args
        a = args
        self.wq = nn.Linear(a.dim, a.n_heads * a.head_dim, bias=False)
        self.wk = nn.Linear(a.dim, a.n_kv_heads * a.head_dim, bias=False)
        self.wv = nn.Linear(a.dim, a.n_kv_heads * a.head_dim, bias=False)
        self.wo = nn.Linear(a.n_heads * a.head_dim, a.dim, bias=False)

    def load_hf(self, sd, prefix="self_attn."):
        for mine, theirs in (("wq", "q_proj"), ("wk", "k_proj"), ("wv", "v_proj"), ("wo", "o_proj")):
            getattr(self, mine).weight.data.copy_(sd[f"{prefix}{theirs}.weight"])

    def forward(self, x, start=0, cache=None):
        """x [B, L, dim]; cache: dict with 'k', 'v' (changed here) or None."""
        a = self.args
        B, L, _ = x.shape
        q = self.wq(x).view(B, L, a.n_heads, a.head_dim).transpose(1, 2)
        k = self.wk(x).view(B, L, a.n_kv_heads, a.head_dim).transpose(1, 2)
        v = self.wv(x).view(B, L, a.n_kv_heads, a.head_dim).transpose(1, 2)

        cos, sin = rope_tables(torch.arange(start, start + L), a.head_dim, a.theta, x.dtype)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        if cache is not None:
            if "k" in cache:
                k = torch.cat((cache["k"], k), dim=2)
                v = torch.cat((cache["v"], v), dim=2)
            cache["k"], cache["v"] = k, v

        n_rep = a.n_heads // a.n_kv_heads
        k = k.repeat(1, n_rep, 1, 1)
        v = v.repeat(1, n_rep, 1, 1)

        scores = torch.matmul(q, k.transpose(2, 3)) * a.query_scalar ** -0.5
        scores = scores + self.causal_mask(L, k.shape[2], x)
        if a.softcap is not None:
            scores = torch.tanh(scores / a.softcap) * a.softcap
        probs = torch.softmax(scores.float(), dim=-1).to(x.dtype)
        y = torch.matmul(probs, v).transpose(1, 2).reshape(B, L, -1)
        return self.wo(y)

    def causal_mask(self, L, S, like):
        i = torch.arange(S - L, S, device=like.device)[:, None]
        j = torch.arange(S, device=like.device)[None, :]
        ok = j <= i
        if self.args.window is not None:
            ok &= j > i - self.args.window      # window counts the token itself
        return torch.zeros(L, S, dtype=like.dtype, device=like.device).masked_fill(~ok, float("-inf"))


if __name__ == "__main__":
    torch.manual_seed(0)
    att, c = GemAttention(), {}
    x = torch.randn(2, 6, 48)
    y = torch.cat([att(x[:, :4], 0, c), att(x[:, 4:], 4, c)], 1)
    print(y.shape)
