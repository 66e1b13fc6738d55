"""Cross-attention from text tokens to audio frames for an edge speech model.

Frames beyond the real length of a clip are padding.  Prompt tokens (language, task, ...) come
in together, later ones one at a time.
"""
import math

import torch
from torch import nn


class FrameReader(nn.Module):
    def __init__(self, text_dim, audio_dim, heads, d_head):
        super().__init__()
        self.heads, self.d = heads, d_head
        self.wq = nn.Linear(text_dim, heads * d_head, bias=False)
        self.wk = nn.Linear(audio_dim, heads * d_head, bias=False)
        self.wv = nn.Linear(audio_dim, heads * d_head, bias=False)
        self.wo = nn.Linear(heads * d_head, text_dim)        # columns: head 0, head 1, ...
        self._frames = None

    def load(self, audio, n_frames):
        """audio (B, S, audio_dim); n_frames (B,), at least 1: frames n_frames[b].. of clip b
        are padding and must not be looked at.  Keeps keys, values and mask for forward()."""
        b, s, _ = audio.shape
        k = self.wk(audio).view(b, s, self.heads, self.d).transpose(1, 2)
        v = self.wv(audio).view(b, s, self.heads, self.d).transpose(1, 2)
        padding = torch.arange(s).unsqueeze(0) >= n_frames.unsqueeze(1)
        self._frames = (k, v, padding)

    def forward(self, text):
        """text (B, T, text_dim) -> (B, T, text_dim): multi-head softmax attention over the
        loaded clip's real frames, scale 1/sqrt(d_head)."""
        b, t, _ = text.shape
        k, v, padding = self._frames
        q = self.wq(text).view(b, t, self.heads, self.d).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.d)
        if padding.any():
            scores.masked_fill(padding[:, None, None, :], float("-inf"))
        ctx = torch.matmul(torch.softmax(scores, dim=-1), v)
        return self.wo(ctx.reshape(b, t, self.heads * self.d))
