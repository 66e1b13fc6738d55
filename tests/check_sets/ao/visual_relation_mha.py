"""Scene graph prediction on Visual Genome: which pair of boxes stands in which relation."""
import torch
import torch.nn as nn


def pair_mask(n_boxes, max_boxes, boxes):
    """bool [B, N, N], True = do not look. A box may look at boxes of its own image
    that exist and that touch it, and always at itself.

    boxes [B, N, 4] as x1, y1, x2, y2
    """
    x1 = torch.maximum(boxes[:, :, None, 0], boxes[:, None, :, 0])
    y1 = torch.maximum(boxes[:, :, None, 1], boxes[:, None, :, 1])
    x2 = torch.minimum(boxes[:, :, None, 2], boxes[:, None, :, 2])
    y2 = torch.minimum(boxes[:, :, None, 3], boxes[:, None, :, 3])
    touch = (x2 > x1) & (y2 > y1)
    real = torch.arange(max_boxes, device=boxes.device)[None] < n_boxes[:, None]
    eye = torch.eye(max_boxes, dtype=torch.bool, device=boxes.device)
    return ~((touch & real[:, None, :]) | eye)


class RelationHead(nn.Module):
    def __init__(self, dim=128, heads=8, n_rel=50, layers=2):
        super().__init__()
        self.heads = heads
        self.geo = nn.Linear(4, dim)
        self.att = nn.ModuleList([nn.MultiheadAttention(dim, heads, batch_first=True) for _ in range(layers)])
        self.ln = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])
        self.sub = nn.Linear(dim, dim)
        self.obj = nn.Linear(dim, dim)
        self.rel = nn.Linear(dim, n_rel + 1)

    def context(self, feats, boxes, n_boxes):
        x = feats + self.geo(boxes)
        m = pair_mask(n_boxes, x.size(1), boxes)
        m = m.repeat(self.heads, 1, 1)
        for att, ln in zip(self.att, self.ln):
            y, _ = att(x, x, x, attn_mask=m, need_weights=False)
            x = ln(x + y)
        return x

    def forward(self, feats, boxes, n_boxes):
        """feats [B, N, dim], boxes [B, N, 4] in 0..1, n_boxes [B] -> [B, N, N, n_rel + 1]"""
        x = self.context(feats, boxes, n_boxes)
        pair = torch.tanh(self.sub(x)[:, :, None] + self.obj(x)[:, None])
        return self.rel(pair)


def recall_at(logits, gold, n_boxes, k=50):
    """gold: list of sets {(i, j, r)}, background is class 0"""
    hits, total = 0, 0
    prob = logits.softmax(-1)
    for b, g in enumerate(gold):
        n = int(n_boxes[b])
        p = prob[b, :n, :n, 1:].clone()
        p[torch.arange(n), torch.arange(n)] = -1
        top = p.flatten().topk(min(k, p.numel())).indices.tolist()
        R = p.size(-1)
        found = {(t // (n * R), t // R % n, t % R + 1) for t in top}
        hits += len(found & g)
        total += len(g)
    return hits / max(total, 1)
