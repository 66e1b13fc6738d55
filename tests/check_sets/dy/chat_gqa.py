"""Chat service: grouped-query layer that takes prompts in pieces.

ChatLayer(dim, heads, kv_heads).forward(x, past=None) -> (y, present)
    x       (B, T, dim)  T new tokens, 1 <= T
    past    None or (k, v), each (B, kv_heads, S, dim/heads), of the S tokens before
    present (k, v) with S + T tokens
New token t sits at position S + t and attends to positions 0 .. S + t.
Query heads are grouped in order: with r = heads / kv_heads, head h reads kv head h // r.
Positions are added to x by the caller.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ChatLayer(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.d = heads, kv_heads, dim // heads
        self.q_proj = nn.Linear(dim, heads * self.d, bias=False)
        self.k_proj = nn.Linear(dim, kv_heads * self.d, bias=False)
        self.v_proj = nn.Linear(dim, kv_heads * self.d, bias=False)
        self.o_proj = nn.Linear(heads * self.d, dim, bias=False)

    def forward(self, x, past=None):
        B, T, _ = x.shape
        q = self.q_proj(x).view(B, T, self.heads, self.d).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.kv_heads, self.d).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.kv_heads, self.d).transpose(1, 2)
        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)
        total = k.size(2)
        keep = torch.ones(T, total, dtype=torch.bool, device=x.device).tril(total - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).reshape(B, T, -1)), (k, v)
