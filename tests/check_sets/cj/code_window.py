"""Local attention block of our code completion model.

Most layers of the stack only look back a short way; the global layers are in
``code_global.py``.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class LocalConfig:
    hidden_size: int = 32
    num_heads: int = 4
    window: int = 3
    logit_cap: float = 30.0


class LocalAttention(nn.Module):
    """Causal sliding window self-attention.

    A token sees itself and the ``window - 1`` tokens in front of it, so
    ``window`` keys in all. Logits are soft-capped to (-cap, cap) as in Gemma 2
    before anything is hidden. ``attention_mask`` is (batch, seq), 1 for tokens
    and 0 for padding on the right.
    """

    def __init__(self, config=LocalConfig()):
        super().__init__()
        self.config = config
        self.head_dim = config.hidden_size // config.num_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.out = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def visible(self, seq_len, attention_mask, device):
        pos = torch.arange(seq_len, device=device)
        back = pos[:, None] - pos[None, :]
        allowed = (back >= 0) & (back < self.config.window)
        allowed = allowed[None, None]
        if attention_mask is not None:
            allowed = allowed & attention_mask.bool()[:, None, None, :]
        return allowed

    def forward(self, hidden, attention_mask=None):
        bsz, seq_len, _ = hidden.shape
        q, k, v = self.qkv(hidden).chunk(3, dim=-1)
        shape = (bsz, seq_len, self.config.num_heads, self.head_dim)
        q = q.reshape(shape).transpose(1, 2)
        k = k.reshape(shape).transpose(1, 2)
        v = v.reshape(shape).transpose(1, 2)

        logits = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        logits = torch.tanh(logits / self.config.logit_cap) * self.config.logit_cap
        allowed = self.visible(seq_len, attention_mask, hidden.device)
        # padded rows can lose every key here, keep them finite
        logits = logits.masked_fill(~allowed, torch.finfo(logits.dtype).min)
        probs = torch.softmax(logits, dim=-1, dtype=torch.float32).to(v.dtype)
        ctx = (probs @ v).transpose(1, 2).reshape(bsz, seq_len, -1)
        return self.out(ctx)
