import math
from dataclasses import dataclass

import torch


@dataclass
class ModelConfig:
    hidden_size: int = 64
    head_dim: int = 16
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    sliding_window: int = 6
    rope_theta: float = 150000.0


def _apply_rotary(x: torch.Tensor, theta: float) -> torch.Tensor:
    # x: (n_tokens, ..., head_dim)
    n, d = x.shape[0], x.shape[-1]
    inv_freq = theta ** (-torch.arange(0, d, 2, dtype=torch.float32, device=x.device) / d)
    t = torch.arange(n, dtype=torch.float32, device=x.device)
    ang = torch.einsum("i,j->ij", t, inv_freq).to(x.dtype)
    shape = (n,) + (1,) * (x.dim() - 2) + (d // 2,)
    cos, sin = ang.cos().view(shape), ang.sin().view(shape)
    x1, x2 = torch.chunk(x, 2, dim=-1)
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)


def sdpa(Q, K, V, S, sm_scale, sliding_window=0):
    # sliding_window == 0 means no sliding window
    n_tokens, n_heads, q_mult, d_head = Q.shape
    assert K.shape == (n_tokens, n_heads, d_head)
    assert V.shape == (n_tokens, n_heads, d_head)
    K = K[:, :, None, :].expand(-1, -1, q_mult, -1)
    V = V[:, :, None, :].expand(-1, -1, q_mult, -1)
    S = S.reshape(n_heads, q_mult, 1, 1).expand(-1, -1, n_tokens, -1)
    mask = torch.triu(Q.new_full((n_tokens, n_tokens), -float("inf")), diagonal=1)
    if sliding_window > 0:
        mask += torch.tril(mask.new_full((n_tokens, n_tokens), -float("inf")), diagonal=-sliding_window)
    QK = torch.einsum("qhmd,khmd->hmqk", Q, K)
    QK = QK * sm_scale
    QK = QK + mask[None, None, :, :]
    QK = torch.cat([QK, S], dim=-1)
    W = torch.softmax(QK, dim=-1)
    W = W[..., :-1]
    attn = torch.einsum("hmqk,khmd->qhmd", W, V)
    return attn.reshape(n_tokens, -1)


class AttentionBlock(torch.nn.Module):
    def __init__(self, config: ModelConfig, layer_idx: int = 0):
        super().__init__()
        self.head_dim = config.head_dim
        self.num_attention_heads = config.num_attention_heads
        self.num_key_value_heads = config.num_key_value_heads
        # Only apply sliding window to every other layer
        self.sliding_window = config.sliding_window if layer_idx % 2 == 0 else 0
        self.theta = config.rope_theta
        self.sinks = torch.nn.Parameter(torch.randn(config.num_attention_heads))
        self.norm = torch.nn.LayerNorm(config.hidden_size)
        qkv_dim = config.head_dim * (config.num_attention_heads + 2 * config.num_key_value_heads)
        self.qkv = torch.nn.Linear(config.hidden_size, qkv_dim)
        self.out = torch.nn.Linear(config.head_dim * config.num_attention_heads, config.hidden_size)
        self.sm_scale = 1 / math.sqrt(config.head_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # x: (n_tokens, hidden_size), one sequence
        t = self.norm(x)
        qkv = self.qkv(t)
        nq, nkv, d = self.num_attention_heads, self.num_key_value_heads, self.head_dim
        q, k, v = qkv.split([nq * d, nkv * d, nkv * d], dim=-1)
        q = q.view(-1, nkv, nq // nkv, d)
        k = k.view(-1, nkv, d)
        v = v.view(-1, nkv, d)
        q, k = _apply_rotary(q, self.theta), _apply_rotary(k, self.theta)
        t = sdpa(q, k, v, self.sinks, self.sm_scale, self.sliding_window)
        return x + self.out(t)
