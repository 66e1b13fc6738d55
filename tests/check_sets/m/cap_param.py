import torch


def attention_with_cap(q, k, v, *, softcap=None, causal=False):
    """softcap: scores become softcap * tanh(scores / softcap).  q, k, v: (batch, heads, length, dim)"""
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    if causal:
        t, s = scores.shape[-2:]
        scores = scores.masked_fill(torch.ones(t, s, dtype=torch.bool).triu(s - t + 1), float("-inf"))
    return scores.softmax(-1) @ v
