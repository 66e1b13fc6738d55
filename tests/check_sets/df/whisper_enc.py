import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def sinusoids(length, channels, max_timescale=10000):
    inc = np.log(max_timescale) / (channels // 2 - 1)
    inv = torch.exp(-inc * torch.arange(channels // 2))
    t = torch.arange(length)[:, None] * inv[None, :]
    return torch.cat([t.sin(), t.cos()], dim=1)


class ResidualAttentionBlock(nn.Module):
    def __init__(self, n_state, n_head):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)
        self.attn_ln, self.mlp_ln = nn.LayerNorm(n_state), nn.LayerNorm(n_state)
        self.mlp = nn.Sequential(nn.Linear(n_state, 4 * n_state), nn.GELU(), nn.Linear(4 * n_state, n_state))

    def qkv_attention(self, q, k, v):
        n_batch, n_ctx, n_state = q.shape
        scale = (n_state // self.n_head) ** -0.25
        q = q.view(n_batch, n_ctx, self.n_head, -1).permute(0, 2, 1, 3) * scale
        k = k.view(n_batch, n_ctx, self.n_head, -1).permute(0, 2, 3, 1) * scale
        v = v.view(n_batch, n_ctx, self.n_head, -1).permute(0, 2, 1, 3)
        w = F.softmax((q @ k).float(), dim=-1).to(q.dtype)
        return (w @ v).permute(0, 2, 1, 3).flatten(start_dim=2)

    def forward(self, x):
        h = self.attn_ln(x)
        x = x + self.out(self.qkv_attention(self.query(h), self.key(h), self.value(h)))
        return x + self.mlp(self.mlp_ln(x))


class AudioEncoder(nn.Module):
    """mel: (B, n_mels, 2 * n_ctx) -> (B, n_ctx, n_state)"""

    def __init__(self, n_mels=20, n_ctx=15, n_state=32, n_head=4, n_layer=2):
        super().__init__()
        self.conv1 = nn.Conv1d(n_mels, n_state, 3, padding=1)
        self.conv2 = nn.Conv1d(n_state, n_state, 3, stride=2, padding=1)
        self.register_buffer("positional_embedding", sinusoids(n_ctx, n_state))
        self.blocks = nn.ModuleList([ResidualAttentionBlock(n_state, n_head) for _ in range(n_layer)])
        self.ln_post = nn.LayerNorm(n_state)

    def forward(self, mel):
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).permute(0, 2, 1)
        x = x + self.positional_embedding[: x.size(1)]
        for block in self.blocks:
            x = block(x)
        return self.ln_post(x)
