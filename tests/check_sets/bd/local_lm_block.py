from typing import Optional, Tuple
import torch
from torch import nn


class Cfg:
    hidden_size = 64
    num_attention_heads = 8
    num_key_value_heads = 2
    head_dim = 8
    sliding_window = 4     # a token sees itself and the sliding_window - 1 tokens before it
    rope_theta = 500000.0
    qk_norm_eps = 1e-6


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def rope_cache(position_ids: torch.Tensor, dim: int, theta: float) -> Tuple[torch.Tensor, torch.Tensor]:
    inv_freq = 1.0 / (theta ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim))
    freqs = position_ids[..., None].float() * inv_freq
    emb = torch.cat((freqs, freqs), dim=-1)
    return emb.cos().unsqueeze(1), emb.sin().unsqueeze(1)


class LocalSelfAttention(nn.Module):
    """Sliding-window causal attention with grouped keys (Llama weight layout).

    attention_mask: [B, L], 1 = real token, 0 = padding (left or right). Output at padding
    positions is zero.
    """

    def __init__(self, config=Cfg):
        super().__init__()
        self.config = config
        D, H, K, d = config.hidden_size, config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.q_proj = nn.Linear(D, H * d, bias=False)
        self.k_proj = nn.Linear(D, K * d, bias=False)
        self.v_proj = nn.Linear(D, K * d, bias=False)
        self.o_proj = nn.Linear(H * d, D, bias=False)
        self.q_norm = nn.RMSNorm(d, eps=config.qk_norm_eps)
        self.k_norm = nn.RMSNorm(d, eps=config.qk_norm_eps)

    def allowed(self, L, attention_mask, device):
        i = torch.arange(L, device=device)
        dist = i[:, None] - i[None, :]
        ok = (dist >= 0) & (dist < self.config.sliding_window)
        ok = ok[None, None]
        if attention_mask is not None:
            ok = ok & attention_mask.bool()[:, None, None, :]
        return ok

    def forward(self, hidden_states, attention_mask: Optional[torch.Tensor] = None):
        c = self.config
        B, L, _ = hidden_states.shape
        if attention_mask is None:
            pos = torch.arange(L).expand(B, L)
        else:
            pos = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)
        cos, sin = rope_cache(pos, c.head_dim, c.rope_theta)

        q = self.q_norm(self.q_proj(hidden_states).view(B, L, -1, c.head_dim)).transpose(1, 2)
        k = self.k_norm(self.k_proj(hidden_states).view(B, L, -1, c.head_dim)).transpose(1, 2)
        v = self.v_proj(hidden_states).view(B, L, -1, c.head_dim).transpose(1, 2)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin

        groups = c.num_attention_heads // c.num_key_value_heads
        k = k.repeat_interleave(groups, dim=1)
        v = v.repeat_interleave(groups, dim=1)

        ok = self.allowed(L, attention_mask, hidden_states.device)
        scores = (q @ k.mT) * c.head_dim ** -0.5
        scores = scores.float().masked_fill(~ok, float("-inf"))
        top = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).min)
        e = (scores - top).exp()
        probs = e / e.sum(-1, keepdim=True).clamp(min=1e-20)
        ctx = (probs.type_as(v) @ v).transpose(1, 2).reshape(B, L, -1)
        out = self.o_proj(ctx)
        if attention_mask is not None:
            out = out * attention_mask[..., None].to(out.dtype)
        return out
