"""Q-Former-like bridge from an audio encoder to an LLM.

n_query learned queries read the audio frames of *their own* utterance and return a fixed
number of "audio tokens" per utterance.

    frames   (B, S, C)   encoder output, batch first
    returns  (B, n_query, C_llm)

Utterances of a batch are independent.  Frames are cut to 30 s beforehand, all are real.
"""
import torch
from torch import nn


class BridgeLayer(nn.Module):
    def __init__(self, C: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.cross = nn.MultiheadAttention(C, heads, dropout=dropout, batch_first=True)
        self.mix = nn.MultiheadAttention(C, heads, dropout=dropout)
        self.n1, self.n2, self.n3 = nn.LayerNorm(C), nn.LayerNorm(C), nn.LayerNorm(C)
        self.ff = nn.Sequential(nn.Linear(C, 4 * C), nn.GELU(), nn.Linear(4 * C, C))

    def forward(self, query: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
        h = self.n1(query)
        query = query + self.mix(h, h, h, need_weights=False)[0]
        h = self.n2(query)
        query = query + self.cross(h, frames, frames, need_weights=False)[0]
        return query + self.ff(self.n3(query))


class AudioBridge(nn.Module):
    def __init__(self, C: int, C_llm: int, n_query: int = 32, depth: int = 2,
                 heads: int = 8) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(n_query, C) * 0.02)
        self.layers = nn.ModuleList(BridgeLayer(C, heads) for _ in range(depth))
        self.ln_in, self.ln_out = nn.LayerNorm(C), nn.LayerNorm(C)
        self.to_llm = nn.Linear(C, C_llm)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        frames = self.ln_in(frames)
        q = self.query.expand(frames.size(0), -1, -1)
        for layer in self.layers:
            q = layer(q, frames)
        return self.to_llm(self.ln_out(q))
