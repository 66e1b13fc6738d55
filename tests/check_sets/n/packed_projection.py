import torch
from torch import nn
import torch.nn.functional as F


class PackedSelfAttention(nn.Module):
    """One projection for all three.  Its rows are laid out as in the published checkpoints: for every head its query, its key and its
    value rows one after the other, i.e. weight.view(num_heads, 3, head_dim, hidden)."""

    def __init__(self, hidden_size=24, num_heads=3):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = hidden_size // num_heads
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states):
        bsz, seq, _ = hidden_states.shape
        fused = self.query_key_value(hidden_states)
        fused = fused.view(bsz, seq, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        query, key, value = fused.unbind(0)
        context = F.scaled_dot_product_attention(query, key, value)
        return self.dense(context.transpose(1, 2).reshape(bsz, seq, -1))
