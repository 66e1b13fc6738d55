import math

import torch
import torch.nn as nn


class PrefixEncoder(nn.Module):
    """Trainable key/value pairs in front of every layer's keys and values (Li & Liang, 2021)."""

    def __init__(self, prefix_len, num_layers, num_heads, head_dim, mid_dim=32):
        super().__init__()
        self.shape = (prefix_len, num_layers * 2, num_heads, head_dim)
        hidden = num_heads * head_dim
        self.embedding = nn.Embedding(prefix_len, hidden)
        self.trans = nn.Sequential(nn.Linear(hidden, mid_dim), nn.Tanh(), nn.Linear(mid_dim, num_layers * 2 * hidden))

    def forward(self, batch_size):
        ids = torch.arange(self.shape[0], device=self.embedding.weight.device)
        kv = self.trans(self.embedding(ids)).view(self.shape)
        kv = kv.permute(1, 2, 0, 3).unsqueeze(1).expand(-1, batch_size, -1, -1, -1)
        return kv.chunk(self.shape[1] // 2, dim=0)  # per layer: (2, B, H, P, d)


class FrozenSelfAttention(nn.Module):
    def __init__(self, hidden, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, hidden // num_heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.dense = nn.Linear(hidden, hidden)

    def shape(self, t):
        return t.view(t.size(0), -1, self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, x, prefix=None, pad_mask=None):
        # pad_mask: (B, L), True for padding
        B, L, _ = x.shape
        q, k, v = self.shape(self.query(x)), self.shape(self.key(x)), self.shape(self.value(x))
        if prefix is not None:
            k = torch.cat([prefix[0], k], dim=2)
            v = torch.cat([v, prefix[1]], dim=2)
            if pad_mask is not None:
                keep = torch.zeros(B, prefix.size(3), dtype=torch.bool, device=x.device)
                pad_mask = torch.cat([keep, pad_mask], dim=1)
        s = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_dim)
        if pad_mask is not None:
            s = s.masked_fill(pad_mask[:, None, None], torch.finfo(s.dtype).min)
        o = torch.matmul(torch.softmax(s, dim=-1), v)
        return self.dense(o.transpose(1, 2).reshape(B, L, -1))


class PrefixTunedEncoder(nn.Module):
    def __init__(self, hidden=48, num_heads=4, num_layers=2, prefix_len=5):
        super().__init__()
        self.layers = nn.ModuleList([FrozenSelfAttention(hidden, num_heads) for _ in range(num_layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(num_layers)])
        for p in self.parameters():
            p.requires_grad = False
        self.prefix_encoder = PrefixEncoder(prefix_len, num_layers, num_heads, hidden // num_heads)

    def forward(self, hidden_states, pad_mask=None):
        prefixes = self.prefix_encoder(hidden_states.size(0))
        for layer, norm, prefix in zip(self.layers, self.norms, prefixes):
            hidden_states = norm(hidden_states + layer(hidden_states, prefix, pad_mask))
        return hidden_states
