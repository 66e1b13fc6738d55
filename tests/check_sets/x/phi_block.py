import torch
import torch.nn as nn
import torch.nn.functional as F


class PhiConfig:
    hidden_size = 64
    num_attention_heads = 4
    intermediate_size = 256
    partial_rotary_factor = 0.5
    attention_dropout = 0.1
    resid_pdrop = 0.1
    layer_norm_eps = 1e-5
    rope_theta = 10000.0


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


class PhiSdpaAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.head_dim = config.hidden_size // self.num_heads
        self.rotary_ndims = int(self.head_dim * config.partial_rotary_factor)
        self.attention_dropout = config.attention_dropout
        self.theta = config.rope_theta
        self.Wqkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def _rotary(self, x, cos, sin):
        rot, rest = x[..., :self.rotary_ndims], x[..., self.rotary_ndims:]
        return torch.cat([rot * cos + rotate_half(rot) * sin, rest], -1)

    def forward(self, x):
        bsz, q_len, dim = x.size()
        qkv = self.Wqkv(x).view(bsz, q_len, 3, self.num_heads, self.head_dim)
        q, k, v = (t.transpose(1, 2) for t in qkv.unbind(2))
        inv_freq = self.theta ** (-torch.arange(0, self.rotary_ndims, 2, device=x.device, dtype=x.dtype) / self.rotary_ndims)
        freqs = torch.outer(torch.arange(q_len, device=x.device, dtype=x.dtype), inv_freq)
        emb = torch.cat([freqs, freqs], -1)
        q, k = self._rotary(q, emb.cos(), emb.sin()), self._rotary(k, emb.cos(), emb.sin())
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attention_dropout, is_causal=q_len > 1)
        return self.dense(out.transpose(1, 2).reshape(bsz, q_len, dim))


class PhiDecoderLayer(nn.Module):
    # attention and MLP read the same normed input
    def __init__(self, config=PhiConfig):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.self_attn = PhiSdpaAttention(config)
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)
        self.resid_dropout = nn.Dropout(config.resid_pdrop)

    def forward(self, hidden_states):
        h = self.input_layernorm(hidden_states)
        attn = self.resid_dropout(self.self_attn(h))
        ff = self.resid_dropout(self.fc2(F.gelu(self.fc1(h), approximate="tanh")))
        return attn + ff + hidden_states
