import torch
from torch import nn
from typing import List, Optional, Tuple


class GemmaConfig:
    def __init__(self, hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
                 query_pre_attn_scalar=32, sliding_window=8, attn_logit_softcapping=5.0,
                 rope_theta=10000.0, rms_norm_eps=1e-6, num_hidden_layers=2, **kwargs):
        self.hidden_size = hidden_size
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads
        self.head_dim = head_dim
        self.query_pre_attn_scalar = query_pre_attn_scalar
        self.sliding_window = sliding_window
        self.attn_logit_softcapping = attn_logit_softcapping
        self.rope_theta = rope_theta
        self.rms_norm_eps = rms_norm_eps
        self.num_hidden_layers = num_hidden_layers


class KVCache():
    def __init__(self) -> None:
        self.key_cache: List[torch.Tensor] = []
        self.value_cache: List[torch.Tensor] = []

    def num_items(self, layer_idx=0) -> int:
        if len(self.key_cache) <= layer_idx:
            return 0
        return self.key_cache[layer_idx].shape[-2]

    def update(self, k, v, layer_idx) -> Tuple[torch.Tensor, torch.Tensor]:
        if len(self.key_cache) <= layer_idx:
            self.key_cache.append(k)
            self.value_cache.append(v)
        else:
            self.key_cache[layer_idx] = torch.cat([self.key_cache[layer_idx], k], dim=-2)
            self.value_cache[layer_idx] = torch.cat([self.value_cache[layer_idx], v], dim=-2)
        return self.key_cache[layer_idx], self.value_cache[layer_idx]


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2:]
    return torch.cat((-x2, x1), dim=-1)


def rotary(x, position_ids, theta):
    dim = x.shape[-1]
    inv_freq = 1.0 / (theta ** (torch.arange(0, dim, 2, device=x.device).float() / dim))
    freqs = position_ids[:, None, :, None].float() * inv_freq
    emb = torch.cat((freqs, freqs), dim=-1)
    return x * emb.cos().to(x.dtype) + rotate_half(x) * emb.sin().to(x.dtype)


def repeat_kv(x, n_rep):
    b, n_kv, s, d = x.shape
    return x[:, :, None].expand(b, n_kv, n_rep, s, d).reshape(b, n_kv * n_rep, s, d)


def build_mask(q_len, kv_len, window, dtype, device):
    q_pos = torch.arange(kv_len - q_len, kv_len, device=device)[:, None]
    k_pos = torch.arange(kv_len, device=device)[None, :]
    hidden = k_pos > q_pos
    if window is not None:
        hidden = hidden | (k_pos <= q_pos - window)
    mask = torch.zeros(q_len, kv_len, dtype=dtype, device=device)
    return mask.masked_fill(hidden, torch.finfo(dtype).min)[None, None]


class GemmaAttention(nn.Module):
    """Gemma-2 attention. Even layers use a sliding window, odd layers see everything before."""

    def __init__(self, config: GemmaConfig, layer_idx: int):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.num_heads = config.num_attention_heads
        self.num_kv = config.num_key_value_heads
        self.head_dim = config.head_dim
        self.scaling = config.query_pre_attn_scalar ** -0.5
        self.window = config.sliding_window if layer_idx % 2 == 0 else None
        self.q_proj = nn.Linear(config.hidden_size, self.num_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.num_kv * self.head_dim, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.num_kv * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.num_heads * self.head_dim, config.hidden_size, bias=False)

    def forward(self, hidden_states: torch.Tensor, kv_cache: Optional[KVCache] = None):
        bsz, q_len, _ = hidden_states.shape
        q = self.q_proj(hidden_states).view(bsz, q_len, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(hidden_states).view(bsz, q_len, self.num_kv, self.head_dim).transpose(1, 2)
        v = self.v_proj(hidden_states).view(bsz, q_len, self.num_kv, self.head_dim).transpose(1, 2)

        past = kv_cache.num_items(self.layer_idx) if kv_cache is not None else 0
        position_ids = torch.arange(past, past + q_len, device=q.device)[None].expand(bsz, -1)
        q = rotary(q, position_ids, self.config.rope_theta)
        k = rotary(k, position_ids, self.config.rope_theta)
        if kv_cache is not None:
            k, v = kv_cache.update(k, v, self.layer_idx)
        k = repeat_kv(k, self.num_heads // self.num_kv)
        v = repeat_kv(v, self.num_heads // self.num_kv)

        attn_weights = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        attn_weights = attn_weights + build_mask(q_len, k.shape[-2], self.window, q.dtype, q.device)
        if self.config.attn_logit_softcapping is not None:
            cap = self.config.attn_logit_softcapping
            attn_weights = torch.tanh(attn_weights / cap) * cap
        attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(q.dtype)
        attn_output = torch.matmul(attn_weights, v)
        attn_output = attn_output.transpose(1, 2).contiguous().view(bsz, q_len, -1)
        return self.o_proj(attn_output), attn_weights
