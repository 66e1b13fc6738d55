"""Gemma-2 style attention: logit soft-capping, causal, padded batches."""
import torch
import torch.nn as nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        n = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return (n * (1.0 + self.weight.float())).type_as(x)


class SoftcapAttention(nn.Module):
    """x (B, T, dim), tokens (B, T) bool, True = real token, left-aligned (first is real).

    Logits are squashed to (-softcap, softcap); padded and future keys get weight 0.
    """

    def __init__(self, dim=32, heads=4, softcap=5.0):
        super().__init__()
        self.heads, self.hd, self.softcap = heads, dim // heads, softcap
        self.norm = RMSNorm(dim)
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, dim, bias=False)
        self.v_proj = nn.Linear(dim, dim, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def allowed(self, tokens):
        T = tokens.shape[1]
        causal = torch.ones(T, T, dtype=torch.bool, device=tokens.device).tril()
        return causal[None, None] & tokens[:, None, None, :]

    def forward(self, x, tokens):
        B, T, D = x.shape
        h = self.norm(x)
        q = self.q_proj(h).view(B, T, self.heads, self.hd)
        k = self.k_proj(h).view(B, T, self.heads, self.hd)
        v = self.v_proj(h).view(B, T, self.heads, self.hd)
        logits = torch.einsum("bthd,bshd->bhts", q, k) * self.hd ** -0.5
        logits = logits.masked_fill(~self.allowed(tokens), float("-inf"))
        logits = self.softcap * torch.tanh(logits / self.softcap)
        probs = logits.float().softmax(dim=-1).to(v.dtype)
        out = torch.einsum("bhts,bshd->bthd", probs, v)
        return x + self.o_proj(out.reshape(B, T, D))
