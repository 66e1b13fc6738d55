# coding=utf-8
"""PyTorch protein encoder (ESM-like, absolute positions)."""
import logging
from dataclasses import dataclass
from typing import Optional, Tuple

import torch
from torch import nn

logger = logging.getLogger(__name__)


@dataclass
class ProteinConfig:
    vocab_size: int = 33
    hidden_size: int = 64
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    intermediate_size: int = 128
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 1026
    pad_token_id: int = 1
    layer_norm_eps: float = 1e-5
    attn_implementation: str = "sdpa"


@dataclass
class ProteinOutput:
    last_hidden_state: torch.Tensor
    hidden_states: Tuple[torch.Tensor, ...]


class ProteinSelfAttention(nn.Module):
    def __init__(self, config: ProteinConfig):
        super().__init__()
        if config.hidden_size % config.num_attention_heads:
            raise ValueError("hidden_size must be a multiple of num_attention_heads")
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = config.hidden_size // config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout_prob = config.attention_probs_dropout_prob

    def transpose_for_scores(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:-1], self.num_attention_heads, self.attention_head_size).transpose(1, 2)

    def forward(self, hidden_states, attention_mask: Optional[torch.Tensor] = None):
        """attention_mask: what `get_extended_attention_mask` returns, or None."""
        q = self.transpose_for_scores(self.query(hidden_states))
        k = self.transpose_for_scores(self.key(hidden_states))
        v = self.transpose_for_scores(self.value(hidden_states))
        if attention_mask is not None:
            # sdpa kernels are faster with a boolean mask
            attention_mask = attention_mask.to(torch.bool)
        out = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=attention_mask,
            dropout_p=self.dropout_prob if self.training else 0.0,
        )
        return out.transpose(1, 2).reshape(hidden_states.shape)


class ProteinLayer(nn.Module):
    def __init__(self, config: ProteinConfig):
        super().__init__()
        self.self = ProteinSelfAttention(config)
        self.attn_out = nn.Linear(config.hidden_size, config.hidden_size)
        self.LayerNorm_attn = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.LayerNorm_ffn = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.up = nn.Linear(config.hidden_size, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x, attention_mask=None):
        x = x + self.attn_out(self.self(self.LayerNorm_attn(x), attention_mask))
        return x + self.down(nn.functional.gelu(self.up(self.LayerNorm_ffn(x))))


class ProteinEncoderModel(nn.Module):
    def __init__(self, config: ProteinConfig):
        super().__init__()
        self.config = config
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.layer = nn.ModuleList(ProteinLayer(config) for _ in range(config.num_hidden_layers))
        self.emb_layer_norm_after = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    @staticmethod
    def get_extended_attention_mask(attention_mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """[batch, seq] of 1 (residue) / 0 (padding) -> [batch, 1, 1, seq], 0.0 where the
        position may be attended to and a large negative number where it may not."""
        extended = attention_mask[:, None, None, :].to(dtype)
        return (1.0 - extended) * torch.finfo(dtype).min

    def forward(self, input_ids, attention_mask: Optional[torch.Tensor] = None) -> ProteinOutput:
        if attention_mask is None:
            attention_mask = (input_ids != self.config.pad_token_id).long()
        pos = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.word_embeddings(input_ids) + self.position_embeddings(pos)
        x = x * attention_mask.unsqueeze(-1).to(x.dtype)
        extended = self.get_extended_attention_mask(attention_mask, x.dtype)
        hidden = [x]
        for layer in self.layer:
            x = layer(x, extended)
            hidden.append(x)
        return ProteinOutput(self.emb_layer_norm_after(x), tuple(hidden))
