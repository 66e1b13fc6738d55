import torch
import torch.nn as nn
import torch.nn.functional as F


class CrossModal(nn.Module):
    # every frame of a (video) looks at all frames of b (audio)
    def __init__(self, dim_a, dim_b, dim):
        super().__init__()
        self.q = nn.Linear(dim_a, dim)
        self.k = nn.Linear(dim_b, dim)
        self.v = nn.Linear(dim_b, dim)
        self.scale = dim ** -0.5

    def forward(self, a, b):
        # a: (batch, Ta, dim_a), b: (batch, Tb, dim_b) -> (batch, Ta, dim)
        scores = torch.bmm(self.q(a), self.k(b).permute(0, 2, 1)) * self.scale
        weights = F.softmax(scores, dim=1)
        return torch.bmm(weights, self.v(b))


class EmotionNet(nn.Module):
    def __init__(self, dim_video=20, dim_audio=12, dim=16, classes=4):
        super().__init__()
        self.v2a = CrossModal(dim_video, dim_audio, dim)
        self.a2v = CrossModal(dim_audio, dim_video, dim)
        self.head = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, classes))

    def forward(self, video, audio):
        v = self.v2a(video, audio).mean(1)
        a = self.a2v(audio, video).mean(1)
        return self.head(torch.cat([v, a], -1))
