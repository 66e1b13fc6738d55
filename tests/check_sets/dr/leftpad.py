"""Batched generation with left padding: the attention of one layer.

Prompts of different length are padded ON THE LEFT, so that the last column is always a
real token. `attention_mask` (B, T) as the tokenizer returns it: 1 = token, 0 = pad.

Each token attends to the tokens up to and including itself, never to pads. The rows of
pad positions have nothing to look at; their output is 0 (before the output projection's
bias, which is absent).

x (B, T, D) -> (B, T, D)
"""
import math
import torch
import torch.nn as nn


class LeftPadAttention(nn.Module):
    def __init__(self, dim, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(dim, 3 * dim)
        self.c_proj = nn.Linear(dim, dim, bias=False)

    def build_bias(self, attention_mask, dtype):
        T = attention_mask.size(1)
        causal = torch.ones(T, T, dtype=torch.bool, device=attention_mask.device).tril()
        visible = causal[None] & (attention_mask[:, None, :] == 1)
        # pads may look at themselves so that the softmax stays finite; zeroed later
        visible = visible | torch.eye(T, dtype=torch.bool, device=attention_mask.device)
        bias = torch.zeros(visible.shape, dtype=dtype, device=attention_mask.device)
        return bias.masked_fill(~visible, float("-inf"))[:, None]

    def forward(self, x, attention_mask):
        B, T, D = x.shape
        q, k, v = self.c_attn(x).split(D, dim=2)
        q = q.view(B, T, self.n_head, -1).transpose(1, 2)
        k = k.view(B, T, self.n_head, -1).transpose(1, 2)
        v = v.view(B, T, self.n_head, -1).transpose(1, 2)
        att = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        att = (att + self.build_bias(attention_mask, att.dtype)).softmax(-1)
        y = (att @ v).transpose(1, 2).reshape(B, T, D)
        y = y * attention_mask[:, :, None].to(y.dtype)
        return self.c_proj(y)
