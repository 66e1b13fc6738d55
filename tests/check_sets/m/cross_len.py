import torch
import torch.nn as nn


class MultiHeadCrossAttention(nn.Module):
    """x: encoder output (batch, src, d_model), y: decoder states (batch, tgt, d_model) -> (batch, tgt, d_model)."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_model, self.num_heads, self.head_dim = d_model, num_heads, d_model // num_heads
        self.kv_layer = nn.Linear(d_model, 2 * d_model)
        self.q_layer = nn.Linear(d_model, d_model)
        self.linear_layer = nn.Linear(d_model, d_model)

    def forward(self, x, y):
        batch_size, sequence_length, d_model = x.size()
        kv = self.kv_layer(x).reshape(batch_size, sequence_length, 2, self.num_heads, self.head_dim)
        k, v = kv.permute(2, 0, 3, 1, 4)
        q = self.q_layer(y).reshape(batch_size, sequence_length, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        w = torch.softmax(q @ k.transpose(-1, -2) / self.head_dim ** 0.5, dim=-1)
        values = (w @ v).permute(0, 2, 1, 3).reshape(batch_size, -1, d_model)
        return self.linear_layer(values)
