# coding=utf-8
# Copyright 2024 The PatchCast authors.
""" PyTorch PatchCast model (time series forecasting on patches)."""
from dataclasses import dataclass
from typing import Optional, Tuple

import torch
from torch import nn


@dataclass
class PatchCastConfig:
    d_model: int = 32
    num_attention_heads: int = 4
    attention_dropout: float = 0.2
    patch_length: int = 8
    prediction_length: int = 12
    num_hidden_layers: int = 2


@dataclass
class PatchCastOutput:
    prediction: torch.Tensor
    attentions: Optional[Tuple[torch.Tensor, ...]] = None


class PatchCastAttention(nn.Module):
    """
    Bidirectional multi-head attention over patches.

    Args:
        hidden_states (`(batch, patches, d_model)`)
        output_attentions (`bool`): also return the attention probabilities
            `(batch, heads, patches, patches)`; each row is a distribution over the patches.
    """

    def __init__(self, config: PatchCastConfig):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.head_dim = config.d_model // self.num_heads
        self.scaling = self.head_dim**-0.5
        self.dropout = config.attention_dropout
        self.q_proj = nn.Linear(config.d_model, config.d_model)
        self.k_proj = nn.Linear(config.d_model, config.d_model)
        self.v_proj = nn.Linear(config.d_model, config.d_model)
        self.out_proj = nn.Linear(config.d_model, config.d_model)

    def _shape(self, tensor: torch.Tensor) -> torch.Tensor:
        bsz, n, _ = tensor.shape
        return tensor.view(bsz, n, self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, hidden_states: torch.Tensor, output_attentions: bool = False):
        bsz, n, d_model = hidden_states.shape
        query = self._shape(self.q_proj(hidden_states)) * self.scaling
        key = self._shape(self.k_proj(hidden_states))
        value = self._shape(self.v_proj(hidden_states))

        attn_probs = nn.functional.softmax(query @ key.transpose(-1, -2), dim=-1)
        attn_probs = nn.functional.dropout(attn_probs, p=self.dropout, training=self.training)
        attn_output = attn_probs @ value
        attn_output = attn_output.transpose(1, 2).reshape(bsz, n, d_model)
        attn_output = self.out_proj(attn_output)
        return attn_output, (attn_probs if output_attentions else None)


class PatchCastLayer(nn.Module):
    def __init__(self, config: PatchCastConfig):
        super().__init__()
        self.self_attn = PatchCastAttention(config)
        self.norm1, self.norm2 = nn.LayerNorm(config.d_model), nn.LayerNorm(config.d_model)
        self.fc1 = nn.Linear(config.d_model, 2 * config.d_model)
        self.fc2 = nn.Linear(2 * config.d_model, config.d_model)

    def forward(self, x, output_attentions=False):
        y, w = self.self_attn(self.norm1(x), output_attentions)
        x = x + y
        return x + self.fc2(nn.functional.gelu(self.fc1(self.norm2(x)))), w


class PatchCastForPrediction(nn.Module):
    def __init__(self, config: PatchCastConfig):
        super().__init__()
        self.config = config
        self.embed = nn.Linear(config.patch_length, config.d_model)
        self.layers = nn.ModuleList(PatchCastLayer(config) for _ in range(config.num_hidden_layers))
        self.head = nn.Linear(config.d_model, config.prediction_length)

    def forward(self, past_values, output_attentions=False):
        loc, scale = past_values.mean(-1, keepdim=True), past_values.std(-1, keepdim=True) + 1e-5
        x = ((past_values - loc) / scale).unfold(-1, self.config.patch_length, self.config.patch_length)
        x = self.embed(x)
        all_w = ()
        for layer in self.layers:
            x, w = layer(x, output_attentions)
            all_w += (w,)
        pred = self.head(x[:, -1]) * scale + loc
        return PatchCastOutput(pred, all_w if output_attentions else None)
