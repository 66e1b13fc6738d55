"""Matches phone photos of loose pills to catalogue photos (momentum contrast).

query = phone photo, key = catalogue photo of the same pill; a queue of older keys serves
as negatives. tau is the usual temperature.
"""
import copy

import torch
from torch import nn
from torch.nn import functional as F


class Eye(nn.Module):
    """Small conv net, unit-length output."""

    def __init__(self, dim=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(inplace=True),
            nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.head = nn.Linear(32, dim)

    def forward(self, img):
        return F.normalize(self.head(self.body(img)), dim=-1)


class KeyQueue(nn.Module):
    """First in, first out, of fixed length."""

    def __init__(self, length, dim):
        super().__init__()
        self.register_buffer("keys", F.normalize(torch.randn(length, dim), dim=-1))
        self.register_buffer("label", torch.full((length,), -1, dtype=torch.long))
        self.register_buffer("at", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def push(self, k, label):
        where = (self.at + torch.arange(len(k))) % len(self.keys)
        self.keys[where] = k
        self.label[where] = label
        self.at.copy_((self.at + len(k)) % len(self.keys))


class ImprintContrast(nn.Module):
    """Returns the loss and the share of queries whose own key ranks first.

    Queue entries of the same pill (equal NDC label) are no negatives and are left out.
    """

    def __init__(self, dim=32, length=64, tau=0.1, momentum=0.99):
        super().__init__()
        self.tau, self.momentum = tau, momentum
        self.query_eye = Eye(dim)
        self.key_eye = copy.deepcopy(self.query_eye).requires_grad_(False)
        self.queue = KeyQueue(length, dim)

    @torch.no_grad()
    def follow(self):
        for slow, fast in zip(self.key_eye.parameters(), self.query_eye.parameters()):
            slow.lerp_(fast, 1 - self.momentum)

    def forward(self, phone, catalogue, ndc):
        q = self.query_eye(phone)
        with torch.no_grad():
            if self.training:
                self.follow()
            k = self.key_eye(catalogue)
        own = (q * k).sum(-1, keepdim=True)
        others = q @ self.queue.keys.clone().T
        same = ndc[:, None] == self.queue.label[None]
        others = others.masked_fill(same, float("-inf"))
        logits = torch.cat([own, others], dim=1) / self.tau
        loss = F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))
        first = (logits.argmax(1) == 0).float().mean()
        if self.training:
            self.queue.push(k, ndc)
        return loss, first


if __name__ == "__main__":
    net = ImprintContrast()
    for _ in range(3):
        loss, hit = net(torch.rand(8, 3, 24, 24), torch.rand(8, 3, 24, 24), torch.randint(0, 30, (8,)))
    print(float(loss), float(hit))
