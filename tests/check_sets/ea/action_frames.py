"""Action recognition (UCF101): ResNet frame features -> temporal self attention -> class.

frames : (B, T, D) one feature vector per frame, clips all have T frames
Returns: class logits (B, n_classes) and the attention maps (B, heads, T, T).

Multi-head attention of "Attention is all you need": each head works on its own D/heads slice of
every frame's projection, logits divided by the square root of the slice width; each frame's
weights over the T frames sum to 1 in each head. Mean over the frames before the classifier.
"""
import math

import torch
import torch.nn as nn


class TemporalAttention(nn.Module):
    def __init__(self, D, n_classes, heads=4):
        super().__init__()
        self.heads = heads
        self.W_q = nn.Linear(D, D)
        self.W_k = nn.Linear(D, D)
        self.W_v = nn.Linear(D, D)
        self.W_o = nn.Linear(D, D)
        self.softmax = nn.Softmax(dim=1)
        self.norm = nn.LayerNorm(D)
        self.cls = nn.Linear(D, n_classes)

    def forward(self, frames):
        B, T, D = frames.size()
        q = self.W_q(frames).view(B, self.heads, T, D // self.heads)
        k = self.W_k(frames).view(B, self.heads, T, D // self.heads)
        v = self.W_v(frames).view(B, self.heads, T, D // self.heads)
        scores = q.matmul(k.transpose(2, 3)) / math.sqrt(self.heads)
        maps = self.softmax(scores)
        y = maps.matmul(v).transpose(1, 2).contiguous().view(B, T, D)
        y = self.norm(frames + self.W_o(y))
        return self.cls(y.mean(dim=1)), maps
