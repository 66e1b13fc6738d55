"""BLOOM attention with ALiBi and a KV cache, for CPU generation.

ALiBi (Press et al., 2022): head h adds -m_h * (i - j) to the logit of query i and
key j, m_h = 2^(-8 h / n) for h = 1..n; n_head must be a power of two here. `past`
holds the keys and values of the tokens already processed, so a call may carry one
new token or several.
"""
import math

import torch
import torch.nn as nn


def alibi_slopes(n_head):
    if n_head & (n_head - 1):
        raise ValueError("n_head must be a power of two")
    return torch.tensor([2.0 ** (-8.0 * (h + 1) / n_head) for h in range(n_head)])


class BloomAttention(nn.Module):
    def __init__(self, hidden_size=32, n_head=4):
        super().__init__()
        self.n_head = n_head
        self.head_dim = hidden_size // n_head
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.register_buffer("slopes", alibi_slopes(n_head), persistent=False)

    def forward(self, x, past=None):
        b, n, c = x.shape
        fused = self.query_key_value(x).view(b, n, self.n_head, 3, self.head_dim)
        q, k, v = (fused[..., i, :].transpose(1, 2) for i in range(3))
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        total = k.size(2)

        scores = q @ k.transpose(2, 3) / math.sqrt(self.head_dim)
        i = torch.arange(total - n, total, device=x.device)[:, None]
        j = torch.arange(total, device=x.device)[None, :]
        scores = scores + self.slopes[:, None, None] * (i - j)

        causal = torch.tril(torch.ones(n, total, dtype=torch.bool, device=x.device))
        scores = scores.masked_fill(~causal, torch.finfo(scores.dtype).min)
        probs = torch.softmax(scores, dim=-1, dtype=torch.float32).to(x.dtype)
        out = (probs @ v).transpose(1, 2).reshape(b, n, c)
        return self.dense(out), (k, v)


class BloomBlock(nn.Module):
    def __init__(self, hidden_size=32, n_head=4):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(hidden_size)
        self.self_attention = BloomAttention(hidden_size, n_head)
        self.post_attention_layernorm = nn.LayerNorm(hidden_size)
        self.mlp = nn.Sequential(
            nn.Linear(hidden_size, 4 * hidden_size),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * hidden_size, hidden_size),
        )

    def forward(self, hidden_states, past=None):
        a, present = self.self_attention(self.input_layernorm(hidden_states), past)
        hidden_states = hidden_states + a
        m = self.mlp(self.post_attention_layernorm(hidden_states))
        return hidden_states + m, present


if __name__ == "__main__":
    block = BloomBlock().eval()
    x = torch.randn(1, 8, 32)
    with torch.no_grad():
        y, past = block(x[:, :5])
        y, past = block(x[:, 5:], past)
    print(y.shape, past[0].shape)
