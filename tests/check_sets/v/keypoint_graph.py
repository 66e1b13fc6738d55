"""Graph network over the keypoints of two images: self layers inside an image, cross layers between them."""
from copy import deepcopy

import torch
from torch import nn


def MLP(channels):
    layers = []
    for i in range(1, len(channels)):
        layers.append(nn.Conv1d(channels[i - 1], channels[i], kernel_size=1))
        if i < len(channels) - 1:
            layers += [nn.InstanceNorm1d(channels[i]), nn.ReLU()]
    return nn.Sequential(*layers)


def attention(query, key, value):
    dim = query.shape[1]
    scores = torch.einsum("bdhn,bdhm->bhnm", query, key) / dim**0.5
    prob = torch.softmax(scores, dim=-1)
    return torch.einsum("bhnm,bdhm->bdhn", prob, key)


class MultiHeadedAttention(nn.Module):
    def __init__(self, num_heads, d_model):
        super().__init__()
        self.dim, self.num_heads = d_model // num_heads, num_heads
        self.merge = nn.Conv1d(d_model, d_model, kernel_size=1)
        self.proj = nn.ModuleList([deepcopy(self.merge) for _ in range(3)])
        for p in self.proj:
            p.reset_parameters()

    def forward(self, query, key, value):
        b = query.size(0)
        query, key, value = [
            layer(x).view(b, self.dim, self.num_heads, -1) for layer, x in zip(self.proj, (query, key, value))
        ]
        return self.merge(attention(query, key, value).contiguous().view(b, self.dim * self.num_heads, -1))


class Propagation(nn.Module):
    def __init__(self, d, num_heads):
        super().__init__()
        self.attn = MultiHeadedAttention(num_heads, d)
        self.mlp = MLP([2 * d, 2 * d, d])

    def forward(self, x, source):
        return self.mlp(torch.cat([x, self.attn(x, source, source)], dim=1))


class KeypointGNN(nn.Module):
    def __init__(self, d=32, heads=4, names=("self", "cross") * 2):
        super().__init__()
        self.place = MLP([3, 16, d])
        self.layers = nn.ModuleList([Propagation(d, heads) for _ in names])
        self.names = names
        self.final = nn.Conv1d(d, d, 1)

    def forward(self, kpts0, desc0, kpts1, desc1):
        """kpts (b, n, 3): x, y, score; desc (b, d, n) -> similarity (b, n0, n1)"""
        desc0 = desc0 + self.place(kpts0.transpose(1, 2))
        desc1 = desc1 + self.place(kpts1.transpose(1, 2))
        for layer, name in zip(self.layers, self.names):
            src0, src1 = (desc1, desc0) if name == "cross" else (desc0, desc1)
            delta0, delta1 = layer(desc0, src0), layer(desc1, src1)
            desc0, desc1 = desc0 + delta0, desc1 + delta1
        return torch.einsum("bdn,bdm->bnm", self.final(desc0), self.final(desc1)) / desc0.shape[1] ** 0.5


if __name__ == "__main__":
    torch.manual_seed(0)
    net = KeypointGNN()
    print(net(torch.rand(1, 9, 3), torch.randn(1, 32, 9), torch.rand(1, 7, 3), torch.randn(1, 32, 7)).softmax(-1).max(-1))
