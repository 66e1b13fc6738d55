import torch
from torch import nn


class AttentiveStatsPool(nn.Module):
    """ECAPA-TDNN's pooling: channel-dependent weights over the frames, then their weighted mean and standard deviation.

    x: (B, C, T) -> (B, 2 * C)
    """

    def __init__(self, in_dim, bottleneck_dim=4):
        super().__init__()
        self.linear1 = nn.Conv1d(in_dim * 3, bottleneck_dim, kernel_size=1)
        self.linear2 = nn.Conv1d(bottleneck_dim, in_dim, kernel_size=1)

    def forward(self, x):
        context_mean = x.mean(dim=-1, keepdim=True).expand_as(x)
        context_std = torch.sqrt(x.var(dim=-1, keepdim=True) + 1e-10).expand_as(x)
        alpha = torch.tanh(self.linear1(torch.cat((x, context_mean, context_std), dim=1)))
        alpha = torch.softmax(self.linear2(alpha), dim=2)
        mean = torch.sum(alpha * x, dim=2)
        residuals = torch.sum(alpha * x ** 2, dim=2) - mean ** 2
        return torch.cat([mean, torch.sqrt(residuals.clamp(min=1e-9))], dim=1)
