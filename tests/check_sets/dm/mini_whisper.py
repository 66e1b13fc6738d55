"""mini-whisper: decoder layer for my "voice memo to text" toy.

Pre-norm, three parts: self-attention over the text so far, cross-attention to
the audio frames, feed forward.

    text        (B, T, D)
    audio       (B, S, D)
    n_frames    (B,) int, number of real audio frames (>= 1), the rest is silence padding
                that nobody may read
    out         (B, T, D)

A text position sees itself and earlier text positions, and all real frames.
"""
import torch
from torch import nn


class WhisperishLayer(nn.Module):
    def __init__(self, D=32, H=4, p=0.1):
        super().__init__()
        self.me = nn.MultiheadAttention(D, H, dropout=p, batch_first=True)
        self.you = nn.MultiheadAttention(D, H, dropout=p, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Dropout(p), nn.Linear(4 * D, D))
        self.ln = nn.ModuleList([nn.LayerNorm(D) for _ in range(3)])
        self.drop = nn.Dropout(p)

    def forward(self, text, audio, n_frames):
        T, S = text.shape[1], audio.shape[1]
        # nn.MultiheadAttention: True = not allowed, for both kinds of mask
        later = torch.ones(T, T, dtype=torch.bool, device=text.device).triu(1)
        silence = torch.arange(S, device=audio.device).unsqueeze(0) >= n_frames.unsqueeze(1)

        y = self.ln[0](text)
        y, _ = self.me(y, y, y, attn_mask=later, need_weights=False)
        text = text + self.drop(y)

        y = self.ln[1](text)
        y, _ = self.you(y, audio, audio, key_padding_mask=silence, need_weights=False)
        text = text + self.drop(y)

        return text + self.drop(self.ff(self.ln[2](text)))
