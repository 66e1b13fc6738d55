import torch
import torch.nn as nn


class PointNet(nn.Module):
    """points (B, N, 3) -> log-probabilities of the classes (B, classes)"""

    def __init__(self, classes=10):
        super().__init__()
        self.local = nn.Sequential(nn.Conv1d(3, 32, 1), nn.ReLU(), nn.Conv1d(32, 64, 1), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, classes))

    def forward(self, points):
        x = self.local(points.transpose(1, 2)).amax(dim=2)
        return torch.log_softmax(self.head(x), dim=-1)
