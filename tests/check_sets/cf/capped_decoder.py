"""Decoder attention of the audio-text model (Gemma-2 recipe, small).

Grouped-query attention, causal, with a sliding window on the odd layers.  The
logits are capped softly, ``cap * tanh(logits / cap)``; the audio model trains
with a small cap (6) because the audio prefix produces very peaked logits.
Left-padded batches are described by ``attention_mask`` (1 = token, 0 = padding).
"""
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn


@dataclass
class DecoderConfig:
    hidden_size: int = 64
    num_heads: int = 8
    num_kv_heads: int = 4
    sliding_window: Optional[int] = None
    logit_softcap: float = 6.0


def build_bias(n: int, window: Optional[int], attention_mask: Optional[torch.Tensor],
               dtype: torch.dtype, device) -> torch.Tensor:
    """Additive bias [B or 1, 1, n, n]; a window of W shows a token and W-1 before it."""
    i = torch.arange(n, device=device)
    allowed = i[:, None] >= i[None, :]
    if window is not None:
        allowed = allowed & (i[:, None] - i[None, :] < window)
    allowed = allowed[None, None]
    if attention_mask is not None:
        allowed = allowed & attention_mask.bool()[:, None, None, :]
    bias = torch.zeros(allowed.shape, dtype=dtype, device=device)
    return bias.masked_fill(~allowed, torch.finfo(dtype).min)


class CappedGroupedAttention(nn.Module):
    def __init__(self, config: DecoderConfig = DecoderConfig()):
        super().__init__()
        self.config = config
        self.head_dim = config.hidden_size // config.num_heads
        self.groups = config.num_heads // config.num_kv_heads
        kv = config.num_kv_heads * self.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, hidden: torch.Tensor,
                attention_mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        bsz, n, _ = hidden.shape
        q = self.q_proj(hidden).view(bsz, n, -1, self.head_dim).transpose(1, 2)
        k = self.k_proj(hidden).view(bsz, n, -1, self.head_dim).transpose(1, 2)
        v = self.v_proj(hidden).view(bsz, n, -1, self.head_dim).transpose(1, 2)
        k = k.repeat_interleave(self.groups, dim=1)
        v = v.repeat_interleave(self.groups, dim=1)

        bias = build_bias(n, self.config.sliding_window, attention_mask,
                          hidden.dtype, hidden.device)
        logits = torch.matmul(q, k.transpose(2, 3)) * self.head_dim ** -0.5
        logits = logits + bias
        cap = self.config.logit_softcap
        logits = cap * torch.tanh(logits / cap)
        probs = torch.softmax(logits, dim=-1, dtype=torch.float32).to(q.dtype)
        out = torch.matmul(probs, v).transpose(1, 2).reshape(bsz, n, -1)
        return self.o_proj(out)
