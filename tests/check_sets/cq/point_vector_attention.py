"""Vector self-attention on point clouds (Point Transformer, Zhao et al. 2021)."""
import torch
import torch.nn as nn


def nearest(xyz, k):
    """(B, N, 3) -> (B, N, k) indices of the k nearest points of the same cloud (self included)"""
    return torch.cdist(xyz, xyz).topk(k, dim=-1, largest=False).indices


def pick(bag, idx):
    """bag: (B, N, C), idx: (B, N, k) -> (B, N, k, C), the features of the neighbours"""
    B, N, C = bag.shape
    return bag.reshape(B * N, C)[idx]


class PebbleAttention(nn.Module):
    """
    y_i = sum_j softmax_j( gamma(phi(x_i) - psi(x_j) + delta) ) * (alpha(x_j) + delta)
    over the k nearest neighbours j of i, with delta = theta(p_i - p_j).
    The softmax is taken over the neighbours, for each channel on its own; as in the official code
    the logits are divided by sqrt(channels).

    xyz: (B, N, 3) coordinates, grit: (B, N, inp) features -> (B, N, inp).
    The clouds of a batch are independent of each other.
    """

    def __init__(self, inp=16, pebble=24, k=5):
        super().__init__()
        self.k = k
        self.pebble = pebble
        self.enter = nn.Linear(inp, pebble)
        self.leave = nn.Linear(pebble, inp)
        self.theta = nn.Sequential(nn.Linear(3, pebble), nn.ReLU(), nn.Linear(pebble, pebble))
        self.gamma = nn.Sequential(nn.Linear(pebble, pebble), nn.ReLU(), nn.Linear(pebble, pebble))
        self.phi = nn.Linear(pebble, pebble, bias=False)
        self.psi = nn.Linear(pebble, pebble, bias=False)
        self.alpha = nn.Linear(pebble, pebble, bias=False)

    def forward(self, xyz, grit):
        idx = nearest(xyz, min(self.k, xyz.size(1)))
        x = self.enter(grit)
        phi = self.phi(x)
        psi = pick(self.psi(x), idx)
        alpha = pick(self.alpha(x), idx)
        delta = self.theta(xyz[:, :, None, :] - pick(xyz, idx))

        logits = self.gamma(phi[:, :, None, :] - psi + delta) / self.pebble ** 0.5
        weight = torch.softmax(logits, dim=-2)
        y = (weight * (alpha + delta)).sum(dim=-2)
        return self.leave(y) + grit


class CloudClassifier(nn.Module):
    def __init__(self, width=16, n_classes=10, depth=2):
        super().__init__()
        self.stem = nn.Linear(3, width)
        self.blocks = nn.ModuleList(PebbleAttention(width) for _ in range(depth))
        self.head = nn.Linear(width, n_classes)

    def forward(self, xyz):
        x = self.stem(xyz)
        for block in self.blocks:
            x = block(xyz, x)
        return self.head(x.amax(dim=1))
