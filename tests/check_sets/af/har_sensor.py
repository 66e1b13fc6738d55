"""
Human activity recognition from wearable IMU sensors
MSc thesis code, chapter 4 (conv front end + multi-head attention + pooling)
"""
import math
import torch
import torch.nn as nn


class ConvFrontEnd(nn.Module):
    def __init__(self, n_channels, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(n_channels, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU())

    def forward(self, x):
        # x: batch, time, channels
        return self.net(x.permute(0, 2, 1)).permute(0, 2, 1)


class TemporalAttention(nn.Module):
    """
    Scaled dot product attention over the time steps of a window.
    mask: (batch, time), 1 = sample recorded, 0 = dropped packet / padding (gets no weight)
    """

    def __init__(self, width, n_heads):
        super().__init__()
        assert width % n_heads == 0
        self.n_heads = n_heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.proj = nn.Linear(width, width)

    def forward(self, x, mask=None):
        b, t, w = x.shape
        q = self.query(x).view(b, t, self.n_heads, -1).permute(0, 2, 1, 3)
        k = self.key(x).view(b, t, self.n_heads, -1).permute(0, 2, 1, 3)
        v = self.value(x).view(b, t, self.n_heads, -1).permute(0, 2, 1, 3)

        energy = torch.matmul(q, k.permute(0, 1, 3, 2)) / math.sqrt(q.size(2))
        if mask is not None:
            energy = energy.masked_fill(mask[:, None, None, :] == 0, 1e-9)
        alpha = torch.softmax(energy, dim=3)
        y = torch.matmul(alpha, v)
        y = y.permute(0, 2, 1, 3).contiguous().view(b, t, w)
        return self.proj(y), alpha


class HARNet(nn.Module):
    def __init__(self, n_channels=9, n_classes=6, width=64, n_heads=4):
        super().__init__()
        self.front = ConvFrontEnd(n_channels, width)
        self.attn = TemporalAttention(width, n_heads)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(0.3)
        self.fc = nn.Linear(width, n_classes)

    def forward(self, x, mask=None):
        h = self.front(x)
        y, _ = self.attn(h, mask)
        h = self.norm(h + y)
        if mask is None:
            pooled = h.mean(1)
        else:
            m = mask.unsqueeze(-1).to(h.dtype)
            pooled = (h * m).sum(1) / m.sum(1).clamp(min=1)
        return self.fc(self.dropout(pooled))


if __name__ == "__main__":
    net = HARNet()
    m = torch.ones(4, 128)
    m[1, 100:] = 0
    print(net(torch.randn(4, 128, 9), m).shape)
