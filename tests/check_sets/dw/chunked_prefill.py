"""Chunked prefill: a long prompt is fed piece by piece into one layer with a growing KV cache.

ChunkedGQA(dim, n_q, n_kv)(x, past=None)
    x     (B, T, dim) next T tokens of the prompt
    past  None or (k, v), each (B, n_kv, P, head) of the P tokens so far
returns (y (B, T, dim), (k, v)) with the T new tokens appended to the cache.

Grouped-query attention: query head h uses kv head h // (n_q // n_kv).  Every new token sees all P
old tokens and the new ones up to and including itself; feeding a prompt in one piece or in
several gives the same y.
"""
import torch
import torch.nn as nn


class ChunkedGQA(nn.Module):
    def __init__(self, dim, n_q, n_kv):
        super().__init__()
        assert n_q % n_kv == 0
        self.n_q, self.n_kv, self.head = n_q, n_kv, dim // n_q
        self.q_proj = nn.Linear(dim, n_q * self.head, bias=False)
        self.k_proj = nn.Linear(dim, n_kv * self.head, bias=False)
        self.v_proj = nn.Linear(dim, n_kv * self.head, bias=False)
        self.o_proj = nn.Linear(n_q * self.head, dim, bias=False)

    def forward(self, x, past=None):
        B, T, _ = x.shape
        q = self.q_proj(x).view(B, T, self.n_q, self.head).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.n_kv, self.head).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.n_kv, self.head).transpose(1, 2)
        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)
        cache = (k, v)

        groups = self.n_q // self.n_kv
        k = k.repeat(1, groups, 1, 1)
        v = v.repeat(1, groups, 1, 1)
        S = k.size(2)
        att = (q @ k.transpose(-1, -2)) / self.head ** 0.5
        keep = torch.ones(T, S, dtype=torch.bool, device=x.device).tril()
        att = att.masked_fill(~keep, float("-inf"))
        y = att.softmax(dim=-1) @ v
        return self.o_proj(y.transpose(1, 2).reshape(B, T, -1)), cache
