import torch
from torch import nn


class Classifier(nn.Module):
    """Mean over the tokens, then a softmax over the classes."""

    def __init__(self, dim=16, classes=5):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        return torch.softmax(self.head(self.norm(x).mean(1)), dim=-1)
