import torch


def soft_capped(q, k, v, cap=50.0, causal=True):
    """Gemma 2: scores are capped by cap * tanh(scores / cap) before the mask. q (B, H, L, D)"""
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    s = torch.tanh(s / cap) * cap
    if causal:
        L, S = s.shape[-2:]
        future = torch.ones(L, S, dtype=torch.bool, device=q.device).triu(S - L + 1)
        s = s.masked_fill(future, float("-inf"))
    return torch.softmax(s.float(), dim=-1).to(v.dtype) @ v
