"""Encoder attention of the ASR recipe, all heads in one bmm.

x     [B, T, D]
lens  [B]  frames per utterance; later frames are padding, not attended to.
Heads are folded into the batch axis (sample-major: row b * H + h).
"""
import torch
import torch.nn as nn


class BmmAttention(nn.Module):
    def __init__(self, D=32, H=4, p=0.1):
        super().__init__()
        self.H = H
        self.dk = D // H
        self.wq = nn.Linear(D, D)
        self.wk = nn.Linear(D, D)
        self.wv = nn.Linear(D, D)
        self.fc = nn.Linear(D, D)
        self.ln = nn.LayerNorm(D)
        self.drop = nn.Dropout(p)

    def fold(self, t):
        B, T, D = t.shape
        return t.view(B, T, self.H, self.dk).transpose(1, 2).reshape(B * self.H, T, self.dk)

    def forward(self, x, lens):
        B, T, D = x.shape
        q, k, v = self.fold(self.wq(x)), self.fold(self.wk(x)), self.fold(self.wv(x))
        dead = torch.arange(T, device=x.device)[None, :] >= lens[:, None]
        dead = dead.unsqueeze(1).repeat(self.H, 1, 1)           # B*H, 1, T
        s = torch.baddbmm(q.new_zeros(1), q, k.transpose(1, 2), beta=0, alpha=self.dk ** -0.5)
        s = s.masked_fill(dead, torch.finfo(s.dtype).min)
        a = self.drop(s.softmax(2))
        y = torch.bmm(a, v).view(B, self.H, T, self.dk)
        y = y.transpose(1, 2).reshape(B, T, D)
        return self.ln(x + self.fc(y))
