"""Cross-attention of the acoustic decoder on phonemes, diffusion TTS.

A learned null token stands at the end of the text so that a frame (silence, breath) need not
look at any phoneme: its key is the parameter ``null_k`` (one per head) and its value is zero,
i.e. the phoneme part of the output is scaled by 1 - P(null).
Classifier-free guidance uses the same block with an empty text.
"""
import torch
import torch.nn.functional as F
from torch import nn


class TextCrossAttention(nn.Module):
    def __init__(self, dim: int = 32, text_dim: int = 20, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(text_dim, 2 * dim, bias=False)
        self.null_k = nn.Parameter(torch.randn(heads, 1, dim // heads))
        self.to_out = nn.Linear(dim, dim)

    def forward(self, frames: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """frames (B, T, dim), text (B, S, text_dim) -> (B, T, dim), with residual"""
        b, t, dim = frames.shape
        q = self.split(self.to_q(self.norm(frames)))
        k, v = (self.split(z) for z in self.to_kv(text).chunk(2, dim=-1))
        k = torch.cat((k, self.null_k.expand(b, -1, -1, -1)), dim=2)
        y = F.scaled_dot_product_attention(q, k, v)
        y = y.transpose(1, 2).reshape(b, t, dim)
        return frames + self.to_out(y)

    def split(self, z: torch.Tensor) -> torch.Tensor:
        b, n, _ = z.shape
        return z.reshape(b, n, self.heads, -1).transpose(1, 2)


class DecoderLayer(nn.Module):
    """Depthwise conv over time, text attention, feed-forward."""

    def __init__(self, dim=32, text_dim=20, heads=4, kernel=5):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.cross = TextCrossAttention(dim, text_dim, heads)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))

    def forward(self, frames, text):
        frames = frames + self.conv(frames.transpose(1, 2)).transpose(1, 2)
        frames = self.cross(frames, text)
        return frames + self.ff(frames)


if __name__ == "__main__":
    layer = DecoderLayer()
    print(layer(torch.randn(2, 11, 32), torch.randn(2, 6, 20)).shape)
