"""Audio-visual speech recognition: audio frames query the lip stream.

audio (B, Ta, D), lips (B, Tv, D);  lips_len (B,) number of real video frames (>= 1).
Multi-head cross attention with D/H per head and scale 1/sqrt(D/H); heads are
folded into the batch for bmm as in the old tensor2tensor ports.
Output (B, Ta, D), residual + layer norm.  Samples of a batch do not influence each other.
"""
import math
import torch
import torch.nn as nn


class LipCrossAttention(nn.Module):
    def __init__(self, dim, n_head):
        super().__init__()
        self.n_head, self.dk = n_head, dim // n_head
        self.w_qs = nn.Linear(dim, dim)
        self.w_ks = nn.Linear(dim, dim)
        self.w_vs = nn.Linear(dim, dim)
        self.fc = nn.Linear(dim, dim)
        self.layer_norm = nn.LayerNorm(dim)

    def fold(self, x):
        b, t, _ = x.size()
        x = x.view(b, t, self.n_head, self.dk)
        return x.permute(2, 0, 1, 3).contiguous().view(-1, t, self.dk)     # (n*b) x t x dk

    def forward(self, audio, lips, lips_len):
        b, ta, _ = audio.size()
        tv = lips.size(1)
        q = self.fold(self.w_qs(audio))
        k = self.fold(self.w_ks(lips))
        v = self.fold(self.w_vs(lips))

        pad = torch.arange(tv, device=lips.device)[None, :] >= lips_len[:, None]
        pad = pad[:, None, :].repeat(self.n_head, 1, 1)                      # (n*b) x 1 x tv

        attn = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.dk)
        attn = attn.masked_fill(pad, float("-inf")).softmax(dim=2)
        out = torch.bmm(attn, v)

        out = out.view(b, self.n_head, ta, self.dk)
        out = out.permute(0, 2, 1, 3).contiguous().view(b, ta, -1)
        return self.layer_norm(audio + self.fc(out))
