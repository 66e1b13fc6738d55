# coding=utf-8
"""BLOOM style decoder with fused qkv, for our 6-head distillation student."""
import math

import torch
from torch import nn
from torch.nn import functional as F


def build_alibi_tensor(attention_mask: torch.Tensor, num_heads: int, dtype: torch.dtype) -> torch.Tensor:
    """
    Args:
        attention_mask (batch, seq): 1 for tokens, 0 for padding
    Returns tensor shaped (batch, num_heads, 1, seq)

    A term that is constant along a query row does not change the softmax, so
    the bias is slope * position instead of slope * (j - i).
    """
    base = torch.tensor(2 ** (-8.0 / num_heads), device=attention_mask.device, dtype=torch.float32)
    powers = torch.arange(1, 1 + num_heads, device=attention_mask.device, dtype=torch.int32)
    slopes = torch.pow(base, powers)
    arange_tensor = ((attention_mask.cumsum(dim=-1) - 1) * attention_mask)[:, None, None, :]
    return (slopes[None, :, None, None] * arange_tensor).to(dtype)


class BloomGelu(nn.Module):
    def forward(self, x):
        return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))


class StudentAttention(nn.Module):
    def __init__(self, hidden_size=48, n_head=6):
        super().__init__()
        self.num_heads = n_head
        self.head_dim = hidden_size // n_head
        self.inv_norm_factor = 1.0 / math.sqrt(self.head_dim)
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size, bias=True)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states, alibi, causal_mask):
        b, s, _ = hidden_states.shape
        fused = self.query_key_value(hidden_states).view(b, s, self.num_heads, 3, self.head_dim)
        q, k, v = (fused[..., i, :].transpose(1, 2) for i in range(3))
        scores = alibi + self.inv_norm_factor * torch.matmul(q, k.transpose(-1, -2))
        scores = scores.float().masked_fill(causal_mask, torch.finfo(torch.float32).min)
        probs = F.softmax(scores, dim=-1).to(hidden_states.dtype)
        ctx = torch.matmul(probs, v).transpose(1, 2).reshape(b, s, -1)
        return self.dense(ctx)


class StudentBlock(nn.Module):
    def __init__(self, hidden_size, n_head):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(hidden_size)
        self.self_attention = StudentAttention(hidden_size, n_head)
        self.post_attention_layernorm = nn.LayerNorm(hidden_size)
        self.mlp = nn.Sequential(nn.Linear(hidden_size, 4 * hidden_size), BloomGelu(),
                                 nn.Linear(4 * hidden_size, hidden_size))

    def forward(self, x, alibi, mask):
        x = x + self.self_attention(self.input_layernorm(x), alibi, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class StudentBloom(nn.Module):
    def __init__(self, vocab_size=96, hidden_size=48, n_head=6, n_layer=2):
        super().__init__()
        self.n_head = n_head
        self.word_embeddings = nn.Embedding(vocab_size, hidden_size)
        self.word_embeddings_layernorm = nn.LayerNorm(hidden_size)
        self.h = nn.ModuleList([StudentBlock(hidden_size, n_head) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(hidden_size)

    def forward(self, input_ids, attention_mask=None):
        b, s = input_ids.shape
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        x = self.word_embeddings_layernorm(self.word_embeddings(input_ids))
        alibi = build_alibi_tensor(attention_mask, self.n_head, x.dtype)
        future = torch.ones(s, s, dtype=torch.bool, device=x.device).triu(1)
        mask = future[None, None] | (attention_mask == 0)[:, None, None, :]
        for blk in self.h:
            x = blk(x, alibi, mask)
        return self.ln_f(x) @ self.word_embeddings.weight.t()
