from dataclasses import dataclass
import torch
from torch import nn


@dataclass
class Gemma2Config:
    hidden: int = 32
    n_heads: int = 4
    n_kv: int = 2
    head_dim: int = 8
    query_pre_attn_scalar: float = 8.0
    attn_logit_softcap: float = 50.0
    rope_theta: float = 10000.0


def rotate(x, pos, theta):
    half = x.shape[-1] // 2
    inv = theta ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    ang = pos[:, None].float() * inv[None]
    c, s = ang.cos(), ang.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


class Gemma2Attention(nn.Module):
    """x (B, L, hidden) -> (B, L, hidden), causal, logits capped at +-attn_logit_softcap."""

    def __init__(self, cfg: Gemma2Config = Gemma2Config()):
        super().__init__()
        self.cfg = cfg
        self.q_proj = nn.Linear(cfg.hidden, cfg.n_heads * cfg.head_dim, bias=False)
        self.k_proj = nn.Linear(cfg.hidden, cfg.n_kv * cfg.head_dim, bias=False)
        self.v_proj = nn.Linear(cfg.hidden, cfg.n_kv * cfg.head_dim, bias=False)
        self.o_proj = nn.Linear(cfg.n_heads * cfg.head_dim, cfg.hidden, bias=False)

    def forward(self, x):
        c = self.cfg
        B, L, _ = x.shape
        q = self.q_proj(x).view(B, L, c.n_heads, c.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(B, L, c.n_kv, c.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(B, L, c.n_kv, c.head_dim).transpose(1, 2)
        pos = torch.arange(L, device=x.device)
        q, k = rotate(q, pos, c.rope_theta), rotate(k, pos, c.rope_theta)
        rep = c.n_heads // c.n_kv
        k, v = k.repeat_interleave(rep, dim=1), v.repeat_interleave(rep, dim=1)
        z = q @ k.transpose(2, 3) * c.query_pre_attn_scalar ** -0.5
        z = torch.tanh(z / c.attn_logit_softcap) * c.attn_logit_softcap
        future = pos[None, :] > pos[:, None]
        z = z.masked_fill(future, torch.finfo(z.dtype).min)
        p = z.float().softmax(-1).to(v.dtype)
        return self.o_proj((p @ v).transpose(1, 2).reshape(B, L, -1))
