import math
from types import SimpleNamespace

import torch
from torch import nn


class LlamaAttention(nn.Module):
    """Causal grouped-query attention.

    config: hidden_size, num_attention_heads, num_key_value_heads.  Query heads come in groups of neighbours: with
    n_rep = num_attention_heads // num_key_value_heads, query heads h * n_rep .. h * n_rep + n_rep - 1 share key
    and value head h.  hidden_states: [bsz, q_len, hidden_size]
    """

    def __init__(self, config=SimpleNamespace(hidden_size=24, num_attention_heads=6, num_key_value_heads=2)):
        super().__init__()
        self.n_q, self.n_kv = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = config.hidden_size // self.n_q
        self.q_proj = nn.Linear(config.hidden_size, self.n_q * self.head_dim, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.n_kv * self.head_dim, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.n_kv * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.n_q * self.head_dim, config.hidden_size, bias=False)

    def forward(self, hidden_states):
        bsz, q_len, _ = hidden_states.shape
        q = self.q_proj(hidden_states).view(bsz, q_len, self.n_q, self.head_dim).transpose(1, 2)
        k = self.k_proj(hidden_states).view(bsz, q_len, self.n_kv, self.head_dim).transpose(1, 2)
        v = self.v_proj(hidden_states).view(bsz, q_len, self.n_kv, self.head_dim).transpose(1, 2)

        n_rep = self.n_q // self.n_kv
        k = k.repeat(1, n_rep, 1, 1)
        v = v.repeat(1, n_rep, 1, 1)

        w = q @ k.transpose(2, 3) / math.sqrt(self.head_dim)
        future = torch.ones(q_len, q_len, dtype=torch.bool, device=w.device).triu(1)
        w = w.masked_fill(future, torch.finfo(w.dtype).min)
        w = torch.softmax(w, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.o_proj((w @ v).transpose(1, 2).reshape(bsz, q_len, -1))
