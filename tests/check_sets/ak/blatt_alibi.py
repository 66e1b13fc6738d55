"""Blatt language model (BLOOM family): ALiBi, fused projection, cache of past keys."""
import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class BlattConfig:
    hidden_size: int = 48
    n_head: int = 6
    vocab_size: int = 256
    attention_dropout: float = 0.0
    layer_norm_epsilon: float = 1e-5


def alibi_slopes(n: int):
    def pow2(m):
        base = 2 ** (-(2 ** -(math.log2(m) - 3)))
        return [base ** i for i in range(1, m + 1)]

    if math.log2(n).is_integer():
        return pow2(n)
    m = 2 ** math.floor(math.log2(n))
    return pow2(m) + alibi_slopes(2 * m)[0::2][: n - m]


def build_alibi_tensor(attention_mask, num_heads, dtype):
    """attention_mask [B, L] of 1 (token) and 0 (padding) -> [B, num_heads, 1, L].

    The bias depends on the key alone: slope * position. In a softmax that is the same as
    -slope * distance, for within a row the two differ by a constant.
    """
    slopes = torch.tensor(alibi_slopes(num_heads), device=attention_mask.device)
    position = ((attention_mask.cumsum(dim=-1) - 1) * attention_mask)[:, None, None, :]
    return (slopes[None, :, None, None] * position).to(dtype)


class BlattAttention(nn.Module):
    def __init__(self, config: BlattConfig):
        super().__init__()
        self.num_heads = config.n_head
        self.head_dim = config.hidden_size // config.n_head
        self.inv_norm_factor = 1.0 / math.sqrt(self.head_dim)
        # the checkpoint holds q, k and v of head 0, then of head 1, ...
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.attention_dropout = nn.Dropout(config.attention_dropout)

    def _split_heads(self, fused):
        b, l, _ = fused.shape
        fused = fused.view(b, l, self.num_heads, 3, self.head_dim)
        return tuple(fused[..., i, :].transpose(1, 2) for i in range(3))

    def forward(self, hidden, alibi, causal_mask, layer_past=None):
        """causal_mask: boolean [B, 1, q, k], True for keys that are hidden."""
        q, k, v = self._split_heads(self.query_key_value(hidden))
        if layer_past is not None:
            k = torch.cat((layer_past[0], k), dim=2)
            v = torch.cat((layer_past[1], v), dim=2)
        present = (k, v)

        b, h, q_len, d = q.shape
        kv_len = k.shape[2]
        scores = alibi.expand(b, h, q_len, kv_len).reshape(b * h, q_len, kv_len).baddbmm(
            q.reshape(b * h, q_len, d), k.reshape(b * h, kv_len, d).transpose(1, 2),
            beta=1.0, alpha=self.inv_norm_factor)
        scores = scores.view(b, h, q_len, kv_len).float()
        scores = scores.masked_fill(causal_mask, torch.finfo(scores.dtype).min)
        probs = self.attention_dropout(F.softmax(scores, dim=-1).to(v.dtype))
        ctx = torch.bmm(probs.view(b * h, q_len, kv_len), v.reshape(b * h, kv_len, d))
        ctx = ctx.view(b, h, q_len, d).permute(0, 2, 1, 3).reshape(b, q_len, h * d)
        return self.dense(ctx), present


class BlattBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.self_attention = BlattAttention(config)
        self.post_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_epsilon)
        self.h_to_4h = nn.Linear(config.hidden_size, 4 * config.hidden_size)
        self.to_h = nn.Linear(4 * config.hidden_size, config.hidden_size)

    def forward(self, x, alibi, mask, past=None):
        y, present = self.self_attention(self.input_layernorm(x), alibi, mask, past)
        x = x + y
        return x + self.to_h(F.gelu(self.h_to_4h(self.post_layernorm(x)), approximate="tanh")), present


class BlattModel(nn.Module):
    def __init__(self, config, layers=2):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.h = nn.ModuleList(BlattBlock(config) for _ in range(layers))

    def forward(self, ids, attention_mask=None, past=None):
        b, n = ids.shape
        old = 0 if past is None else past[0][0].shape[2]
        if attention_mask is None:
            attention_mask = ids.new_ones(b, old + n)
        alibi = build_alibi_tensor(attention_mask, self.config.n_head, self.wte.weight.dtype)
        future = torch.ones(n, old + n, dtype=torch.bool, device=ids.device).triu(old + 1)
        hidden = future[None, None] | (attention_mask == 0)[:, None, None, :]
        x, presents = self.wte(ids), []
        for i, blk in enumerate(self.h):
            x, p = blk(x, alibi, hidden, None if past is None else past[i])
            presents.append(p)
        return x, presents
