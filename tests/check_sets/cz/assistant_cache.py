import torch
from torch import nn


class Shelf:
    def __init__(self):
        self.keys = self.vals = None

    def put(self, k, v):
        self.keys = k if self.keys is None else torch.cat([self.keys, k], dim=2)
        self.vals = v if self.vals is None else torch.cat([self.vals, v], dim=2)
        return self.keys, self.vals


def spread(t, n):
    """(B, Hkv, S, d) -> (B, Hkv * n, S, d)"""
    return t.repeat(1, n, 1, 1)


class AssistantAttention(nn.Module):
    """Grouped-query causal attention, Llama weight layout (consecutive query heads share a
    key/value head). x (B, T, D); shelf keeps earlier keys and values."""

    def __init__(self, D=32, H=8, H_kv=2):
        super().__init__()
        self.H, self.H_kv, self.d = H, H_kv, D // H
        self.q_proj = nn.Linear(D, D, bias=False)
        self.k_proj = nn.Linear(D, H_kv * self.d, bias=False)
        self.v_proj = nn.Linear(D, H_kv * self.d, bias=False)
        self.o_proj = nn.Linear(D, D, bias=False)

    def forward(self, x, shelf=None):
        B, T, D = x.shape
        q = self.q_proj(x).view(B, T, self.H, self.d).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.H_kv, self.d).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.H_kv, self.d).transpose(1, 2)
        if shelf is not None:
            k, v = shelf.put(k, v)
        S = k.size(2)
        k, v = spread(k, self.H // self.H_kv), spread(v, self.H // self.H_kv)
        s = torch.matmul(q, k.transpose(2, 3)) / self.d ** 0.5
        s = s + torch.full((T, S), float("-inf"), device=x.device).triu(S - T + 1)
        p = torch.softmax(s.float(), -1).to(q.dtype)
        return self.o_proj((p @ v).transpose(1, 2).reshape(B, T, D))
