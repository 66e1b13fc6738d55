import torch
from torch import nn


class Attend(nn.Module):
    def __init__(self, channels, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.factor = (channels // num_heads) ** -0.5
        self.proj_q = nn.Linear(channels, channels, bias=False)
        self.proj_kv = nn.Linear(channels, channels * 2, bias=False)

    def forward(self, latent, x):
        k, v = torch.chunk(self.proj_kv(x), 2, dim=2)
        q, k, v = [z.unflatten(2, (self.num_heads, -1)).transpose(1, 2) for z in (self.proj_q(latent), k, v)]
        w = (q @ k.transpose(2, 3) / self.factor).softmax(dim=3)
        return (w @ v).transpose(1, 2).flatten(2)
