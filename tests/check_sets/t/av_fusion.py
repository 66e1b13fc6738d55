import torch
import torch.nn as nn


class CrossModalLayer(nn.Module):
    def __init__(self, d: int, heads: int):
        super().__init__()
        self.norm_q = nn.LayerNorm(d)
        self.norm_kv = nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, heads)
        self.norm_ff = nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        # x: (batch, frames, d) asks, y: (batch, frames, d) answers
        kv = self.norm_kv(y)
        a, _ = self.attn(self.norm_q(x), kv, kv, need_weights=False)
        x = x + a
        return x + self.ff(self.norm_ff(x))


class AudioVisualFusion(nn.Module):
    # audio: (batch, frames, 40) log-mel, video: (batch, frames, 128) lip features, same frame rate
    def __init__(self, d: int = 64, heads: int = 4, classes: int = 7):
        super().__init__()
        self.audio_in = nn.Linear(40, d)
        self.video_in = nn.Linear(128, d)
        self.a2v = CrossModalLayer(d, heads)
        self.v2a = CrossModalLayer(d, heads)
        self.head = nn.Linear(2 * d, classes)

    def forward(self, audio: torch.Tensor, video: torch.Tensor) -> torch.Tensor:
        a, v = self.audio_in(audio), self.video_in(video)
        a2, v2 = self.a2v(a, v), self.v2a(v, a)
        return self.head(torch.cat([a2.mean(1), v2.mean(1)], dim=-1))
