import torch
import torch.nn as nn
import torch.nn.functional as F


class StationMix(nn.Module):
    """Weather stations exchange readings.

    obs (B, N, C), geo (B, N, 2) coordinates. Score = scaled dot product minus a learned
    positive rate per head times the distance between stations.
    """

    def __init__(self, C=16, heads=4):
        super().__init__()
        self.nh, self.hd = heads, C // heads
        self.wq, self.wk, self.wv = nn.Linear(C, C), nn.Linear(C, C), nn.Linear(C, C)
        self.wo = nn.Linear(C, C)
        self.rate = nn.Parameter(torch.linspace(-1, 1, heads))

    def heads_of(self, t):
        return t.view(t.size(0), t.size(1), self.nh, self.hd).transpose(1, 2)

    def forward(self, obs, geo):
        B, N, C = obs.shape
        q, k, v = self.heads_of(self.wq(obs)), self.heads_of(self.wk(obs)), self.heads_of(self.wv(obs))
        far = torch.cdist(geo, geo).unsqueeze(1) * F.softplus(self.rate).view(1, -1, 1, 1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=-far)
        y = y.contiguous().view(B, N, C)
        return self.wo(y)
