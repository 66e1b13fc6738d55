"""Attention of the log-parsing LM, ported from the GPT-NeoX training code.

The checkpoint's query_key_value weight has the NeoX layout: its 3 * hidden output rows
are grouped by head, and inside a head come q, k and v: (num_heads, 3, head_size).
"""
import torch
from torch import nn


class NeoXAttention(nn.Module):
    """Causal self-attention, scores q.k / sqrt(head_size).

    hidden_states: (batch, seq, hidden) -> (batch, seq, hidden)
    """

    def __init__(self, hidden=32, num_heads=4, max_pos=128):
        super().__init__()
        self.num_heads = num_heads
        self.head_size = hidden // num_heads
        self.norm_factor = self.head_size ** -0.5
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)
        mask = torch.tril(torch.ones(max_pos, max_pos)).view(1, 1, max_pos, max_pos)
        self.register_buffer("bias", mask, persistent=False)

    def forward(self, hidden_states):
        b, s, h = hidden_states.shape
        qkv = self.query_key_value(hidden_states)
        qkv = qkv.view(b, s, 3, self.num_heads, self.head_size)
        q, k, v = (t.transpose(1, 2) for t in qkv.unbind(dim=2))

        scores = torch.matmul(q, k.transpose(-1, -2)) / self.norm_factor
        probs = torch.softmax(scores, dim=-1)
        probs = probs * self.bias[:, :, :s, :s]
        out = torch.matmul(probs, v)
        return self.dense(out.transpose(1, 2).reshape(b, s, h))


class NeoXLayer(nn.Module):
    """Parallel residual: x + attn(ln1(x)) + mlp(ln2(x))."""

    def __init__(self, hidden=32, num_heads=4):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(hidden)
        self.post_attention_layernorm = nn.LayerNorm(hidden)
        self.attention = NeoXAttention(hidden, num_heads)
        self.dense_h_to_4h = nn.Linear(hidden, 4 * hidden)
        self.dense_4h_to_h = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        a = self.attention(self.input_layernorm(x))
        m = self.dense_4h_to_h(nn.functional.gelu(self.dense_h_to_4h(self.post_attention_layernorm(x))))
        return x + a + m
