"""Match photographs of knitted swatches to their charts (momentum contrast).

Two encoders: the query encoder sees the photo, the key encoder (a slow copy) the chart.  Keys of former
batches wait in a queue as negatives.  A swatch is identified by the softmax over its own key and
the queue, temperature T.
"""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class SwatchEncoder(nn.Module):
    def __init__(self, in_ch=3, dim=16):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(in_ch, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, img):
        return F.normalize(self.head(self.body(img)), dim=-1)


class QueueContrast(nn.Module):
    """loss = -log softmax([q.k+, q.queue] / T)[0], mean over the batch."""

    def __init__(self, dim=16, size=64, m=0.99, T=None):
        super().__init__()
        self.query = SwatchEncoder(dim=dim)
        self.key = copy.deepcopy(self.query)
        for p in self.key.parameters():
            p.requires_grad_(False)
        self.m = m
        self.T = 1.0 / math.sqrt(dim) if T is None else T
        self.register_buffer("queue", F.normalize(torch.randn(size, dim), dim=-1))
        self.register_buffer("head", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def _drift(self):
        for slow, fast in zip(self.key.parameters(), self.query.parameters()):
            slow.lerp_(fast, 1.0 - self.m)

    @torch.no_grad()
    def _enqueue(self, k):
        slots = (self.head + torch.arange(len(k))) % len(self.queue)
        self.queue[slots] = k
        self.head.copy_((self.head + len(k)) % len(self.queue))

    def forward(self, photo, chart):
        q = self.query(photo)
        with torch.no_grad():
            if self.training:
                self._drift()
            k = self.key(chart)
        own = (q * k).sum(-1, keepdim=True)
        others = q @ self.queue.detach().clone().T
        logits = torch.cat([own, others], dim=1) / self.T
        weights = F.softmax(logits, dim=-1)
        loss = F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=q.device))
        if self.training:
            self._enqueue(k)
        return loss, weights[:, 0]


@torch.no_grad()
def best_charts(model, photo, charts, top=3):
    """Indices of the charts that are most alike."""
    model.eval()
    sims = model.query(photo) @ model.key(charts).T
    return sims.topk(min(top, sims.shape[1]), dim=1).indices


def augment(img):
    if torch.rand(()) < 0.5:
        img = img.flip(-1)
    gain = 1.0 + 0.2 * (torch.rand(img.shape[0], 3, 1, 1) - 0.5)
    return (img * gain).clamp(0, 1)


if __name__ == "__main__":
    torch.manual_seed(12)
    model = QueueContrast().train()
    opt = torch.optim.SGD(model.query.parameters(), lr=0.05)
    chart = torch.rand(8, 3, 24, 24)
    for step in range(5):
        loss, p = model(augment(chart), chart)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 3), round(p.mean().item(), 3))
    print(best_charts(model, chart[:2], chart))
