import torch
from torch import nn


class PhonemeAligner(nn.Module):
    """Additive attention of every mel frame (B, T, dim) to every phoneme (B, S, dim): weights (B, T, S) and contexts (B, T, dim)."""

    def __init__(self, dim, hidden=10):
        super().__init__()
        self.frame = nn.Linear(dim, hidden)
        self.phoneme = nn.Linear(dim, hidden, bias=False)
        self.energy = nn.Linear(hidden, 1, bias=False)

    def forward(self, frames, phonemes):
        hidden = torch.tanh(self.frame(frames) + self.phoneme(phonemes))
        energy = self.energy(hidden).transpose(1, 2).expand(-1, frames.shape[1], -1)
        weights = energy.softmax(dim=-1)
        return weights, weights @ phonemes
