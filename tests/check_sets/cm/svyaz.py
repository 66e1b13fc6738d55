"""Svyaz: cross-attention between robot state tokens and camera tokens (policy network)."""
import torch
import torch.nn as nn


class Svyaz(nn.Module):
    """state (B, S, dim) queries image (B, P, dim).

    vid: (B, P), 1 where the camera patch is visible, 0 where it is occluded; occluded
    patches take no part. Scaled dot-product attention with `heads` heads, folded into the batch.
    Returns (B, S, dim).
    """

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def _fold(self, t):
        B, L, _ = t.shape
        return t.view(B, L, self.heads, self.d).permute(0, 2, 1, 3).reshape(B * self.heads, L, self.d)

    def _unfold(self, t, B):
        L = t.shape[1]
        t = t.view(self.heads, B, L, self.d)
        return t.permute(1, 2, 0, 3).reshape(B, L, self.heads * self.d)

    def forward(self, state, image, vid=None):
        B = state.shape[0]
        q, k, v = self._fold(self.to_q(state)), self._fold(self.to_k(image)), self._fold(self.to_v(image))
        logits = torch.bmm(q, k.transpose(1, 2)) * self.heads ** -0.5
        if vid is not None:
            m = vid.to(logits.dtype).repeat_interleave(self.heads, dim=0).unsqueeze(1)
            logits = logits * m
        att = logits.softmax(dim=-1)
        return self.to_out(self._unfold(torch.bmm(att, v), B))
