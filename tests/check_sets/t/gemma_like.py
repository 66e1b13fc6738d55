"""Gemma 2 style attention: grouped kv heads, logit soft-capping, optional local layers."""
import torch
import torch.nn as nn


class Gemma2Attention(nn.Module):
    """
    Args:
        hidden_size: model width
        num_heads, num_kv_heads, head_dim: as in the config; kv head g serves the
            num_heads / num_kv_heads consecutive query heads from g * that on
        query_pre_attn_scalar: logits are divided by its square root
        softcap: logits are squashed to (-softcap, softcap)
        sliding_window: if given, a token sees that many tokens, itself among them
    """

    def __init__(self, hidden_size, num_heads, num_kv_heads, head_dim,
                 query_pre_attn_scalar=None, softcap=5.0, sliding_window=None):
        super().__init__()
        self.nh, self.nkv, self.hd = num_heads, num_kv_heads, head_dim
        self.scaling = (query_pre_attn_scalar or head_dim) ** -0.5
        self.softcap = softcap
        self.window = sliding_window
        self.q_proj = nn.Linear(hidden_size, num_heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden_size, num_kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden_size, num_kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(num_heads * head_dim, hidden_size, bias=False)

    def causal_mask(self, n, device, dtype):
        i = torch.arange(n, device=device)
        dist = i[:, None] - i[None, :]
        hidden = dist < 0
        if self.window is not None:
            hidden = hidden | (dist >= self.window)
        return torch.zeros(n, n, device=device, dtype=dtype).masked_fill(hidden, float("-inf"))

    def forward(self, hidden_states):
        """hidden_states: (batch, length, hidden_size)"""
        b, n, _ = hidden_states.shape
        q = self.q_proj(hidden_states).view(b, n, self.nh, self.hd).transpose(1, 2)
        k = self.k_proj(hidden_states).view(b, n, self.nkv, self.hd).transpose(1, 2)
        v = self.v_proj(hidden_states).view(b, n, self.nkv, self.hd).transpose(1, 2)
        k = k.repeat_interleave(self.nh // self.nkv, dim=1)
        v = v.repeat_interleave(self.nh // self.nkv, dim=1)
        w = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        w = w + self.causal_mask(n, w.device, w.dtype)
        if self.softcap is not None:
            w = torch.tanh(w / self.softcap) * self.softcap
        w = nn.functional.softmax(w, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.o_proj(torch.matmul(w, v).transpose(1, 2).reshape(b, n, -1))
