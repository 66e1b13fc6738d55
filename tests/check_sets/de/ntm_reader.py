import torch
from torch import nn
import torch.nn.functional as F


class ReadHead(nn.Module):
    """Read head of a Neural Turing Machine: content, interpolation, shift, sharpening."""

    def __init__(self, ctrl, word):
        super().__init__()
        self.word = word
        # key, strength, gate, shift (-1, 0, +1), sharpness
        self.fc = nn.Linear(ctrl, word + 1 + 1 + 3 + 1)

    def forward(self, h, mem, prev):
        """h (B, ctrl), mem (B, N, word), prev (B, N) weights of the last step
        -> read vector (B, word), weights (B, N)"""
        key, beta, g, s, gamma = self.fc(h).split([self.word, 1, 1, 3, 1], dim=1)
        sim = F.cosine_similarity(key[:, None], mem, dim=-1, eps=1e-6)
        wc = F.softmax(F.softplus(beta) * sim, dim=1)
        g = torch.sigmoid(g)
        wg = g * wc + (1 - g) * prev
        s = s.softmax(dim=1)
        ws = (s[:, 0:1] * wg.roll(-1, dims=1)
              + s[:, 1:2] * wg
              + s[:, 2:3] * wg.roll(1, dims=1))
        w = ws.clamp_min(1e-12) ** (1 + F.softplus(gamma))
        w = w / w.sum(dim=1, keepdim=True)
        return torch.einsum("bn,bnw->bw", w, mem), w
