"""Sleep staging from 30 s EEG epochs.

A strided convolution turns the epoch into tokens, the fixed sinusoidal position code of
"Attention is all you need" is added, then one pre-norm encoder layer and mean pooling.
"""
import torch
from torch import nn


def sinusoid_table(n_pos: int, dim: int) -> torch.Tensor:
    position = torch.arange(n_pos, dtype=torch.float32).unsqueeze(1)
    i = torch.arange(0, dim, 2, dtype=torch.float32)
    rate = torch.pow(10000.0, -2.0 * i / dim)
    table = torch.zeros(n_pos, dim)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return table


class SelfAttention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, dim = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, dim // self.heads).unbind(2)
        score = torch.einsum("bihd,bjhd->bhij", q, k) / (dim // self.heads) ** 0.5
        y = torch.einsum("bhij,bjhd->bihd", score.softmax(-1), v)
        return self.out(y.reshape(b, n, dim))


class EEGEncoder(nn.Module):
    stages = ("W", "N1", "N2", "N3", "REM")

    def __init__(self, channels: int = 2, dim: int = 32, heads: int = 4, patch: int = 10, max_tokens: int = 400):
        super().__init__()
        self.tokens = nn.Conv1d(channels, dim, kernel_size=patch, stride=patch)
        self.register_buffer("pos", sinusoid_table(max_tokens, dim))
        self.norm1 = nn.LayerNorm(dim)
        self.attn = SelfAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim))
        self.head = nn.Linear(dim, len(self.stages))

    def forward(self, eeg: torch.Tensor) -> torch.Tensor:
        """eeg: (batch, channels, samples) -> logits (batch, 5)"""
        x = self.tokens(eeg).transpose(1, 2)
        x = x + self.pos[: x.size(1)]
        x = x + self.attn(self.norm1(x))
        x = x + self.ff(self.norm2(x))
        return self.head(x.mean(dim=1))
