import torch
import torch.nn as nn


class AttentiveStats(nn.Module):
    """ECAPA-style pooling: one softmax over time for every channel.

    x (B, C, T), lengths (B,) in frames -> (B, 2C): weighted mean and deviation
    """

    def __init__(self, channels=40, bottleneck=16, eps=1e-6):
        super().__init__()
        self.tdnn = nn.Conv1d(3 * channels, bottleneck, 1)
        self.conv = nn.Conv1d(bottleneck, channels, 1)
        self.eps = eps

    def stats(self, x, m):
        mu = (m * x).sum(2)
        var = (m * (x - mu.unsqueeze(2)) ** 2).sum(2)
        return mu, var.clamp(min=self.eps).sqrt()

    def forward(self, x, lengths):
        T = x.size(2)
        mask = torch.arange(T, device=x.device)[None, None, :] < lengths[:, None, None]
        n = mask.sum(2, keepdim=True).to(x.dtype)
        mu, sd = self.stats(x, mask / n)
        ctx = torch.cat([x, mu.unsqueeze(2).expand_as(x), sd.unsqueeze(2).expand_as(x)], dim=1)
        e = self.conv(torch.tanh(self.tdnn(ctx)))
        e = e.masked_fill(~mask, float("-inf"))
        w = torch.softmax(e, dim=2)
        mu, sd = self.stats(x, w)
        return torch.cat([mu, sd], dim=1)


class SpeakerNet(nn.Module):
    def __init__(self, mels=40, emb=24):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(mels, 40, 5, padding=2), nn.ReLU())
        self.pool = AttentiveStats(40)
        self.fc = nn.Linear(80, emb)

    def forward(self, mel, lengths):
        return nn.functional.normalize(self.fc(self.pool(self.conv(mel), lengths)), dim=-1)
