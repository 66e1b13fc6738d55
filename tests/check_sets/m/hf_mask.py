import torch
import torch.nn.functional as F
from torch import nn


class EagerToSdpa(nn.Module):
    """attention_mask: additive, (batch, 1, q, k): 0 where a key is visible and -inf where it is hidden."""

    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(hidden_size, hidden_size)
        self.k_proj = nn.Linear(hidden_size, hidden_size)
        self.v_proj = nn.Linear(hidden_size, hidden_size)
        self.o_proj = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states, attention_mask):
        b, n, c = hidden_states.shape
        q, k, v = (p(hidden_states).view(b, n, self.num_heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=attention_mask.bool())
        return self.o_proj(y.transpose(1, 2).reshape(b, n, c))
