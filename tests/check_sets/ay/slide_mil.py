"""Gated-attention multiple instance learning for whole slide images (Ilse et al. 2018).

A slide is a bag of patch features (ResNet / CTransPath, extracted beforehand). Slides
have very different numbers of patches; a batch is one long [patches, F] tensor plus the
number of patches per slide, nothing is padded.
"""
import math
from typing import List, Sequence, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class GatedBagPooling(nn.Module):
    """a_k = softmax_k( w^T ( tanh(V h_k) * sigmoid(U h_k) ) ),  z = sum_k a_k h_k.

    n_branches > 1 gives one attention (and one pooled vector) per class, each one
    normalised over the patches of the slide.
    """

    def __init__(self, feat: int, hidden: int, n_branches: int = 1, dropout: float = 0.25):
        super().__init__()
        self.V = nn.Sequential(nn.Linear(feat, hidden), nn.Tanh(), nn.Dropout(dropout))
        self.U = nn.Sequential(nn.Linear(feat, hidden), nn.Sigmoid(), nn.Dropout(dropout))
        self.w = nn.Linear(hidden, n_branches)

    def forward(self, h: torch.Tensor, sizes: Sequence[int]) -> Tuple[torch.Tensor, List[torch.Tensor]]:
        """h [sum(sizes), F] -> z [slides, n_branches, F], attention per slide [n_branches, size]."""
        logits = self.w(self.V(h) * self.U(h))
        pooled, maps = [], []
        for bag, score in zip(h.split(list(sizes)), logits.split(list(sizes))):
            a = torch.softmax(score, dim=0).t()
            pooled.append(a @ bag)
            maps.append(a)
        return torch.stack(pooled), maps


class SlideClassifier(nn.Module):
    """CLAM-MB like: one attention branch and one binary classifier per class, plus the
    instance loss on the most and least attended patches."""

    def __init__(self, feat=1024, width=256, hidden=128, n_classes=2, k=8):
        super().__init__()
        self.k = k
        self.reduce = nn.Sequential(nn.Linear(feat, width), nn.ReLU(), nn.Dropout(0.25))
        self.pool = GatedBagPooling(width, hidden, n_classes)
        self.bag = nn.ModuleList(nn.Linear(width, 1) for _ in range(n_classes))
        self.inst = nn.ModuleList(nn.Linear(width, 2) for _ in range(n_classes))

    def forward(self, feats, sizes):
        h = self.reduce(feats)
        z, maps = self.pool(h, sizes)
        logits = torch.cat([clf(z[:, c]) for c, clf in enumerate(self.bag)], dim=1)
        return logits, maps, h

    def instance_loss(self, h, sizes, maps, labels):
        total = h.new_zeros(())
        for bag, a, y in zip(h.split(list(sizes)), maps, labels.tolist()):
            k = min(self.k, bag.shape[0] // 2)
            if k == 0:
                continue
            hi = a[y].topk(k).indices
            lo = a[y].topk(k, largest=False).indices
            out = self.inst[y](bag[torch.cat([hi, lo])])
            target = torch.tensor([1] * k + [0] * k, device=h.device)
            total = total + F.cross_entropy(out, target)
        return total / max(len(labels), 1)

    def loss(self, feats, sizes, labels, weight=0.3):
        logits, maps, h = self(feats, sizes)
        return (1 - weight) * F.cross_entropy(logits, labels) + weight * self.instance_loss(h, sizes, maps, labels)


def heatmap(attention, coords, patch=256, downsample=32):
    """Attention of one slide as a small image, percentile normalised. coords [n, 2] = (x, y)."""
    rank = attention.argsort().argsort().float() / max(len(attention) - 1, 1)
    size = max(1, math.ceil(patch / downsample))
    xy = (coords / downsample).long()
    W, H = int(xy[:, 0].max()) + size, int(xy[:, 1].max()) + size
    img, hits = torch.zeros(H, W), torch.zeros(H, W)
    for r, (x, y) in zip(rank, xy.tolist()):
        img[y:y + size, x:x + size] += r
        hits[y:y + size, x:x + size] += 1
    return img / hits.clamp(min=1)


def collate(slides):
    """slides: list of (features [n, F], label)."""
    return (torch.cat([s[0] for s in slides]), [len(s[0]) for s in slides],
            torch.tensor([s[1] for s in slides]))
