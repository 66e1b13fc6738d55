# coding=utf-8
"""PyTorch Topaz model: soft-capped logits, query_pre_attn_scalar, pre- and post-norms."""
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn


@dataclass
class TopazConfig:
    hidden_size: int = 64
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 16
    intermediate_size: int = 128
    query_pre_attn_scalar: float = 16.0
    attn_logit_softcapping: Optional[float] = 5.0
    final_logit_softcapping: float = 30.0
    attention_dropout: float = 0.0
    rms_norm_eps: float = 1e-6
    vocab_size: int = 256
    num_hidden_layers: int = 2


class TopazRMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * (1.0 + self.weight.float())).type_as(x)


def apply_rope(x, positions, base=10000.0):
    d = x.shape[-1]
    inv = base ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    ang = positions[:, None, :, None].float() * inv
    cos, sin = ang.cos().type_as(x), ang.sin().type_as(x)
    a, b = x.split(d // 2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def eager_attention(query, key, value, attention_mask, scaling, softcap=None, dropout=0.0,
                    training=False):
    """query [B, H, Lq, d]; key, value [B, Hkv, Lk, d]; attention_mask additive, 0 or finfo.min.

    softcap bounds the scores of the keys that may be read to (-softcap, softcap).
    """
    groups = query.shape[1] // key.shape[1]
    key = key.repeat_interleave(groups, dim=1)
    value = value.repeat_interleave(groups, dim=1)
    logits = torch.matmul(query, key.transpose(-1, -2)) * scaling
    if attention_mask is not None:
        logits = logits + attention_mask[:, :, :, : key.shape[-2]]
    if softcap is not None:
        logits = torch.tanh(logits / softcap) * softcap
    probs = nn.functional.softmax(logits, dim=-1, dtype=torch.float32).to(query.dtype)
    probs = nn.functional.dropout(probs, p=dropout, training=training)
    return torch.matmul(probs, value).transpose(1, 2).contiguous()


class TopazAttention(nn.Module):
    def __init__(self, config: TopazConfig):
        super().__init__()
        self.config = config
        c = config
        self.scaling = c.query_pre_attn_scalar ** -0.5
        self.q_proj = nn.Linear(c.hidden_size, c.num_attention_heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.num_attention_heads * c.head_dim, c.hidden_size, bias=False)

    def forward(self, x, attention_mask=None, positions=None):
        b, n, _ = x.shape
        d = self.config.head_dim
        q = self.q_proj(x).view(b, n, -1, d).transpose(1, 2)
        k = self.k_proj(x).view(b, n, -1, d).transpose(1, 2)
        v = self.v_proj(x).view(b, n, -1, d).transpose(1, 2)
        if positions is None:
            positions = torch.arange(n, device=x.device)[None].expand(b, n)
        q, k = apply_rope(q, positions), apply_rope(k, positions)
        y = eager_attention(q, k, v, attention_mask, self.scaling,
                            softcap=self.config.attn_logit_softcapping,
                            dropout=self.config.attention_dropout, training=self.training)
        return self.o_proj(y.view(b, n, -1))


class TopazLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = TopazAttention(config)
        norm = lambda: TopazRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.n1, self.n2, self.n3, self.n4 = norm(), norm(), norm(), norm()
        self.gate = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x, mask, positions):
        x = x + self.n2(self.self_attn(self.n1(x), mask, positions))
        y = self.n3(x)
        y = self.down(nn.functional.gelu(self.gate(y), approximate="tanh") * self.up(y))
        return x + self.n4(y)


class TopazForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(TopazLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = TopazRMSNorm(config.hidden_size)

    def forward(self, ids, keep=None):
        """keep [B, L], True for tokens (right padding)."""
        b, n = ids.shape
        seen = torch.ones(n, n, dtype=torch.bool, device=ids.device).tril()[None, None]
        if keep is not None:
            seen = seen & keep[:, None, None, :]
        x = self.embed(ids) * self.config.hidden_size ** 0.5
        mask = torch.zeros(seen.shape, dtype=x.dtype, device=x.device)
        mask = mask.masked_fill(~seen, torch.finfo(x.dtype).min)
        pos = torch.arange(n, device=ids.device)[None].expand(b, n)
        for layer in self.layers:
            x = layer(x, mask, pos)
        cap = self.config.final_logit_softcapping
        return torch.tanh(self.norm(x) @ self.embed.weight.T / cap) * cap
