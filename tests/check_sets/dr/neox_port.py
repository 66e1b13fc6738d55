"""Exercise: load one attention layer of a GPT-NeoX checkpoint into your own code.

The checkpoint stores ONE matrix `query_key_value.weight` of shape (3 * hidden, hidden). Careful
with its rows: they are grouped by head. The first 3 * head_size rows belong to head 0
(head_size rows of q, then head_size rows of k, then head_size rows of v), the next
3 * head_size rows to head 1, and so on. `dense` is the output projection.

Rotary embeddings are left out in this exercise. The attention is causal (a token sees itself
and earlier tokens), scaled by 1/sqrt(head_size).

hidden_states (batch, time, hidden)
    -> output (batch, time, hidden),
       attention probabilities (batch, heads, time, time): rows sum to 1, zeros in the future
"""
import torch
import torch.nn as nn


class NeoXAttention(nn.Module):
    def __init__(self, hidden_size, num_attention_heads):
        super().__init__()
        self.num_attention_heads = num_attention_heads
        self.head_size = hidden_size // num_attention_heads
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states):
        b, t, hidden = hidden_states.shape
        qkv = self.query_key_value(hidden_states)
        qkv = qkv.view(b, t, 3, self.num_attention_heads, self.head_size)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)

        scores = torch.einsum("bhqd,bhkd->bhqk", query, key) / self.head_size ** 0.5
        future = torch.ones(t, t, dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(future, torch.finfo(scores.dtype).min)
        probs = scores.softmax(dim=-1)

        context = torch.einsum("bhqk,bhkd->bqhd", probs, value)
        return self.dense(context.reshape(b, t, hidden)), scores
