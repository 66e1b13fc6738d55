"""Toy decoder in the manner of Gemma 2 / Grok: attention logits are squashed smoothly into
(-cap, cap).  The toy uses a small cap so that the effect can be seen in the plots.

keep: bool, True = the query may see the key.  Hidden keys get no weight at all.
"""
import torch
from torch import nn


class CappedAttention(nn.Module):
    def __init__(self, width, n_q_heads, head_dim, cap=4.0):
        super().__init__()
        self.n, self.hd, self.cap = n_q_heads, head_dim, cap
        self.q_proj = nn.Linear(width, n_q_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(width, n_q_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(width, n_q_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(n_q_heads * head_dim, width, bias=False)

    def forward(self, x, pad_keep=None):
        """x (B, T, width); pad_keep (B, T) or None. Causal. The first token is never padding."""
        B, T, _ = x.shape
        shape = (B, T, self.n, self.hd)
        q, k, v = (p(x).view(shape) for p in (self.q_proj, self.k_proj, self.v_proj))
        scores = torch.einsum("bqnh,bknh->bnqk", q, k) * self.hd ** -0.5
        keep = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()[None, None]
        if pad_keep is not None:
            keep = keep & pad_keep[:, None, None, :]
        scores = torch.where(keep, scores, torch.finfo(scores.dtype).min)
        scores = self.cap * torch.tanh(scores / self.cap)
        probs = torch.softmax(scores, dim=-1)
        out = torch.einsum("bnqk,bknh->bqnh", probs, v)
        return self.o_proj(out.reshape(B, T, -1))


class RMS(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(d))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * (1 + self.w)


class SandwichBlock(nn.Module):
    """norm before and after each branch"""

    def __init__(self, width, heads, head_dim, cap):
        super().__init__()
        self.a, self.b, self.c, self.d = (RMS(width) for _ in range(4))
        self.attn = CappedAttention(width, heads, head_dim, cap)
        self.gate, self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x, keep=None):
        x = x + self.b(self.attn(self.a(x), keep))
        h = self.c(x)
        return x + self.d(self.down(nn.functional.gelu(self.gate(h), approximate="tanh") * self.up(h)))


def histogram_of_logits(attn, x, bins=10):
    B, T, _ = x.shape
    q, k = attn.q_proj(x).view(B, T, attn.n, -1), attn.k_proj(x).view(B, T, attn.n, -1)
    s = torch.einsum("bqnh,bknh->bnqk", q, k) * attn.hd ** -0.5
    return torch.histc(attn.cap * torch.tanh(s / attn.cap), bins, -attn.cap, attn.cap)


if __name__ == "__main__":
    blk = SandwichBlock(32, 4, 8, 4.0)
    x = torch.randn(2, 6, 32)
    print(blk(x).shape, histogram_of_logits(blk.attn, x).tolist())
