import torch
import torch.nn as nn


class FrameEncoder(nn.Module):
    """Self-attention over frames (B, T, dim); frame_lengths (B,): frames beyond are padding that no frame attends to."""

    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.q, self.k, self.v, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, frames, frame_lengths):
        B, T, D = frames.shape
        valid = torch.arange(T)[None, :] < frame_lengths[:, None]
        split = lambda x: x.view(B, T, self.h, D // self.h).transpose(1, 2)
        q, k, v = split(self.q(frames)), split(self.k(frames)), split(self.v(frames))
        scores = torch.matmul(q, k.transpose(2, 3)) / T ** 0.5
        scores = scores.masked_fill(~valid[:, None, :, None], torch.finfo(scores.dtype).min)
        attn = torch.softmax(scores, dim=-1)
        return self.out(torch.matmul(attn, v).transpose(1, 2).reshape(B, T, D))
