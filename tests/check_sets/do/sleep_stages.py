"""Sleep staging from EEG epochs.

eeg (B, E, N): B nights, E consecutive 30-s epochs, N samples each.
A small CNN turns each epoch into a vector; a transformer encoder then lets each
epoch look at the other epochs *of the same night*; a linear layer scores the 5
stages.  Output (B, E, 5).  Nights are independent of one another.
"""
import torch
import torch.nn as nn


class EpochCNN(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, dim // 2, 25, stride=6), nn.ReLU(),
            nn.Conv1d(dim // 2, dim, 8, stride=4), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten())

    def forward(self, x):
        return self.net(x)


class SleepStager(nn.Module):
    def __init__(self, dim=16, heads=4, depth=2, max_epochs=64, p=0.1):
        super().__init__()
        self.cnn = EpochCNN(dim)
        self.place = nn.Embedding(max_epochs, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, dim_feedforward=2 * dim, dropout=p)
        self.context = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.stage = nn.Linear(dim, 5)

    def forward(self, eeg):
        B, E, N = eeg.shape
        z = self.cnn(eeg.reshape(B * E, 1, N)).reshape(B, E, -1)
        z = z + self.place(torch.arange(E, device=eeg.device))
        z = self.context(z)
        return self.stage(z)
