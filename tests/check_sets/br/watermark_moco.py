"""Same mould or not?  Momentum-contrast pre-training on paper watermarks.

Two photographs of the same sheet (recto and verso light) are a positive pair, everything in
the queue is negative.  ``k`` comes from the slow encoder; keys are never back-propagated into.
"""
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn


class SheetEncoder(nn.Module):
    def __init__(self, width=16, dim=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Linear(8 * width, 4 * width), nn.ReLU(), nn.Linear(4 * width, dim))

    def forward(self, x):
        return F.normalize(self.head(self.net(x)), dim=-1)


class KeyQueue(nn.Module):
    """Ring of the last `size` keys; starts with random unit vectors."""

    def __init__(self, dim, size):
        super().__init__()
        self.register_buffer("keys", F.normalize(torch.randn(size, dim), dim=-1))
        self.register_buffer("head", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def push(self, k):
        n = self.keys.size(0)
        at = (int(self.head) + torch.arange(k.size(0), device=k.device)) % n
        self.keys[at] = k
        self.head.fill_((int(self.head) + k.size(0)) % n)


class QueryKeyMatcher(nn.Module):
    """InfoNCE: -log softmax of the positive among positive and queue.

    query, key [B, dim] unit vectors.  Returns the loss and the probability given to the
    positive.  The temperature is learned on a log scale and kept at or above 0.01.
    """

    def __init__(self, dim, size=64, temperature=0.07):
        super().__init__()
        self.queue = KeyQueue(dim, size)
        self.log_scale = nn.Parameter(torch.tensor(-math.log(temperature)))

    def scale(self):
        return self.log_scale.clamp(max=math.log(100.0)).exp()

    def forward(self, query, key, update=True):
        key = key.detach()
        pos = (query * key).sum(-1, keepdim=True)
        neg = query @ self.queue.keys.clone().t()
        logits = torch.cat([pos, neg], 1) * self.scale()
        weights = logits.softmax(-1)
        loss = F.cross_entropy(logits, logits.new_zeros(len(logits), dtype=torch.long))
        if update and self.training:
            self.queue.push(key)
        return loss, weights[:, 0].detach()


class WatermarkMoCo(nn.Module):
    def __init__(self, dim=32, queue=64, momentum=0.99):
        super().__init__()
        self.fast = SheetEncoder(dim=dim)
        self.slow = copy.deepcopy(self.fast).requires_grad_(False)
        self.match = QueryKeyMatcher(dim, queue)
        self.m = momentum

    @torch.no_grad()
    def drift(self):
        for s, f in zip(self.slow.parameters(), self.fast.parameters()):
            s.lerp_(f, 1 - self.m)

    def forward(self, recto, verso):
        if self.training:
            self.drift()
        with torch.no_grad():
            k = self.slow(verso)
        return self.match(self.fast(recto), k)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = WatermarkMoCo()
    opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.05)
    for _ in range(3):
        sheet = torch.rand(8, 1, 32, 32)
        loss, sure = net(sheet + 0.05 * torch.randn_like(sheet), sheet + 0.05 * torch.randn_like(sheet))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{loss.item():.3f} {sure.mean().item():.3f}")
