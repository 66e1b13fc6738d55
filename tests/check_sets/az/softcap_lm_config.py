"""Decoder in the manner of Gemma 2, driven by one config object.

Everything that differs between model sizes is in ModelConfig; a field set to None turns
the feature off.
"""
import dataclasses
import enum
import json
from typing import List, Optional

import torch
import torch.nn.functional as F
from torch import nn


class LayerType(enum.Enum):
    GLOBAL = "global"
    LOCAL = "local"


@dataclasses.dataclass
class ModelConfig:
    vocab_size: int = 256
    hidden_size: int = 64
    intermediate_size: int = 128
    num_layers: int = 4
    num_heads: int = 8
    num_kv_heads: int = 4
    head_dim: int = 16
    # q is multiplied by query_pre_attn_scalar ** -0.5; None: head_dim
    query_pre_attn_scalar: Optional[int] = None
    # scores go through  cap * tanh(scores / cap)  before the mask and the softmax
    attn_logit_softcapping: Optional[float] = 50.0
    # the same for the logits over the vocabulary
    final_logit_softcapping: Optional[float] = 30.0
    # LOCAL layers: number of tokens a token sees, itself included
    sliding_window: int = 32
    layer_types: Optional[List[LayerType]] = None
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6

    def __post_init__(self):
        if self.query_pre_attn_scalar is None:
            self.query_pre_attn_scalar = self.head_dim
        if self.layer_types is None:
            self.layer_types = [(LayerType.LOCAL, LayerType.GLOBAL)[i % 2] for i in range(self.num_layers)]

    @classmethod
    def from_json(cls, text: str) -> "ModelConfig":
        raw = json.loads(text)
        if raw.get("layer_types"):
            raw["layer_types"] = [LayerType(t) for t in raw["layer_types"]]
        return cls(**raw)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * (1 + self.weight.float())).type_as(x)


def rotary(x, positions, theta):
    """x [B, L, n, d], positions [L]; halves of the channels are rotated against each other."""
    half = x.shape[-1] // 2
    inv = theta ** (-torch.arange(half, device=x.device) / half)
    ang = (positions[:, None] * inv)[None, :, None]
    a, b = x.float().split(half, dim=-1)
    return torch.cat([a * ang.cos() - b * ang.sin(), b * ang.cos() + a * ang.sin()], -1).type_as(x)


class GemmaAttention(nn.Module):
    def __init__(self, cfg: ModelConfig, kind: LayerType):
        super().__init__()
        self.cfg, self.kind = cfg, kind
        self.groups = cfg.num_heads // cfg.num_kv_heads
        self.scaling = cfg.query_pre_attn_scalar ** -0.5
        self.softcap = cfg.attn_logit_softcapping
        self.q_proj = nn.Linear(cfg.hidden_size, cfg.num_heads * cfg.head_dim, bias=False)
        self.k_proj = nn.Linear(cfg.hidden_size, cfg.num_kv_heads * cfg.head_dim, bias=False)
        self.v_proj = nn.Linear(cfg.hidden_size, cfg.num_kv_heads * cfg.head_dim, bias=False)
        self.o_proj = nn.Linear(cfg.num_heads * cfg.head_dim, cfg.hidden_size, bias=False)

    def visible(self, n, device):
        i = torch.arange(n, device=device)
        back = i[:, None] - i[None]
        ok = back >= 0
        if self.kind is LayerType.LOCAL:
            ok &= back < self.cfg.sliding_window
        return ok

    def forward(self, x):
        B, L, _ = x.shape
        c = self.cfg
        pos = torch.arange(L, device=x.device)
        q = rotary(self.q_proj(x).view(B, L, c.num_heads, c.head_dim), pos, c.rope_theta)
        k = rotary(self.k_proj(x).view(B, L, c.num_kv_heads, c.head_dim), pos, c.rope_theta)
        v = self.v_proj(x).view(B, L, c.num_kv_heads, c.head_dim)
        k = k.repeat_interleave(self.groups, dim=2)
        v = v.repeat_interleave(self.groups, dim=2)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        scores = torch.matmul(q * self.scaling, k.transpose(2, 3))
        scores = scores.masked_fill(~self.visible(L, x.device), torch.finfo(scores.dtype).min)
        probs = F.softmax(scores, dim=-1, dtype=torch.float32).type_as(q)
        out = torch.matmul(probs, v).transpose(1, 2).reshape(B, L, -1)
        return self.o_proj(out)


class GatedMLP(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.gate = nn.Linear(cfg.hidden_size, cfg.intermediate_size, bias=False)
        self.up = nn.Linear(cfg.hidden_size, cfg.intermediate_size, bias=False)
        self.down = nn.Linear(cfg.intermediate_size, cfg.hidden_size, bias=False)

    def forward(self, x):
        return self.down(F.gelu(self.gate(x), approximate="tanh") * self.up(x))


class DecoderLayer(nn.Module):
    def __init__(self, cfg, kind):
        super().__init__()
        self.attn, self.mlp = GemmaAttention(cfg, kind), GatedMLP(cfg)
        self.pre_a, self.post_a, self.pre_m, self.post_m = (
            RMSNorm(cfg.hidden_size, cfg.rms_norm_eps) for _ in range(4))

    def forward(self, x):
        x = x + self.post_a(self.attn(self.pre_a(x)))
        return x + self.post_m(self.mlp(self.pre_m(x)))


class GemmaLM(nn.Module):
    def __init__(self, cfg: ModelConfig):
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Embedding(cfg.vocab_size, cfg.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(cfg, t) for t in cfg.layer_types)
        self.norm = RMSNorm(cfg.hidden_size, cfg.rms_norm_eps)

    def forward(self, ids):
        x = self.embed(ids) * self.cfg.hidden_size ** 0.5
        for layer in self.layers:
            x = layer(x)
        logits = self.norm(x) @ self.embed.weight.T
        cap = self.cfg.final_logit_softcapping
        return logits if cap is None else cap * torch.tanh(logits / cap)


if __name__ == "__main__":
    torch.manual_seed(0)
    cfg = ModelConfig.from_json('{"num_layers": 2, "layer_types": ["local", "global"], "sliding_window": 4}')
    print(GemmaLM(cfg)(torch.randint(0, 256, (2, 10))).shape)
