"""Keyword spotting on Google speech commands: CRNN with a self-attention layer on top."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SelfAttention1d(nn.Module):
    """Every frame is replaced by a weighted mean of all frames of its clip. Scaled dot product,
    one head. x: (B, T, D) -> (B, T, D). attn_map (B, T, T): row t are the weights with which
    frame t reads the frames, summing to one."""

    def __init__(self, dim):
        super().__init__()
        self.theta = nn.Linear(dim, dim)
        self.phi = nn.Linear(dim, dim)
        self.g = nn.Linear(dim, dim)
        self.dim = dim

    def forward(self, x, return_map=False):
        q, k, v = self.theta(x), self.phi(x), self.g(x)
        energy = torch.bmm(q, k.transpose(1, 2)) * (self.dim ** -0.5)
        attn_map = F.softmax(energy, dim=1)
        y = torch.bmm(attn_map, v)
        return (y, attn_map) if return_map else y


class KeywordNet(nn.Module):
    """mfcc (B, n_mfcc, T) -> log probabilities (B, n_words)"""

    def __init__(self, n_mfcc=20, hidden=24, n_words=12):
        super().__init__()
        self.conv = nn.Conv1d(n_mfcc, hidden, 3, padding=1)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.att = SelfAttention1d(2 * hidden)
        self.fc = nn.Linear(2 * hidden, n_words)

    def forward(self, mfcc):
        x = F.relu(self.conv(mfcc)).transpose(1, 2)
        x, _ = self.rnn(x)
        x = x + self.att(x)
        return F.log_softmax(self.fc(x.mean(1)), dim=-1)
