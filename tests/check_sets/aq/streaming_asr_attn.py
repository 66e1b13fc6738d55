"""Limited-context self attention for the streaming acoustic model."""
import math
import torch
import torch.nn as nn


def context_mask(n, left, right):
    """[n, n] bool, True = frame j is visible from frame i.

    A frame sees itself, the `left` frames before it and the `right` frames after it,
    that is left + 1 + right frames in the middle of an utterance.
    """
    i = torch.arange(n).unsqueeze(1)
    j = torch.arange(n).unsqueeze(0)
    return (i - j < left) & (j - i <= right)


class LimitedContextAttention(nn.Module):
    """latency of the layer = right context * 40 ms"""

    def __init__(self, d_model, n_head, left=16, right=2):
        super().__init__()
        self.n_head, self.d_k = n_head, d_model // n_head
        self.left, self.right = left, right
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, frames, n_frames):
        """frames [B, T, C], n_frames [B]"""
        B, T, C = frames.shape
        qkv = self.in_proj(frames).view(B, T, 3, self.n_head, self.d_k)
        q, k, v = (t.transpose(1, 2) for t in qkv.unbind(2))
        att = q @ k.mT / math.sqrt(self.d_k)
        vis = context_mask(T, self.left, self.right).to(frames.device)
        real = torch.arange(T, device=frames.device) < n_frames[:, None]
        vis = vis[None, None] & real[:, None, None, :]
        att = att.masked_fill(~vis, torch.finfo(att.dtype).min)
        att = torch.softmax(att, dim=-1).masked_fill(~vis, 0.0)   # frames far behind the end see nothing
        y = (att @ v).transpose(1, 2).reshape(B, T, C)
        return self.out_proj(y)


class Subsampler(nn.Module):
    """80 mel bins at 10 ms to frames at 40 ms"""

    def __init__(self, mels, d_model):
        super().__init__()
        self.c1 = nn.Conv1d(mels, d_model, 3, stride=2, padding=1)
        self.c2 = nn.Conv1d(d_model, d_model, 3, stride=2, padding=1)

    def forward(self, mel, lens):
        x = torch.relu(self.c2(torch.relu(self.c1(mel.transpose(1, 2)))))
        lens = ((lens + 1) // 2 + 1) // 2
        return x.transpose(1, 2), lens


class StreamingEncoder(nn.Module):
    def __init__(self, mels=80, d_model=64, layers=2, n_head=4):
        super().__init__()
        self.sub = Subsampler(mels, d_model)
        self.norm = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(layers))
        self.att = nn.ModuleList(LimitedContextAttention(d_model, n_head) for _ in range(layers))

    def forward(self, mel, lens):
        x, lens = self.sub(mel, lens)
        for n, a in zip(self.norm, self.att):
            x = x + a(n(x), lens)
        return x, lens
