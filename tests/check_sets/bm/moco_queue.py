"""Self-supervised pre-training on herbarium sheets (MoCo v2 head).

query = one view of the sheet, key = another view through the slowly moving
encoder, queue = keys of earlier batches.
"""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class ProjectionHead(nn.Module):
    def __init__(self, in_dim, out_dim=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(in_dim, in_dim), nn.ReLU(inplace=True), nn.Linear(in_dim, out_dim))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class QueueContrast(nn.Module):
    """InfoNCE against one positive and K queued negatives."""

    def __init__(self, encoder, feat_dim, dim=64, K=1024, m=0.99, T=0.2):
        super().__init__()
        self.m, self.T, self.K = m, T, K
        self.q_enc = nn.Sequential(encoder, ProjectionHead(feat_dim, dim))
        self.k_enc = copy.deepcopy(self.q_enc)
        for p in self.k_enc.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(K, dim), dim=-1))
        self.register_buffer("ptr", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def _ema(self):
        for a, b in zip(self.q_enc.parameters(), self.k_enc.parameters()):
            b.lerp_(a, 1 - self.m)

    @torch.no_grad()
    def _push(self, keys):
        idx = (self.ptr + torch.arange(len(keys), device=keys.device)) % self.K
        self.queue[idx] = keys
        self.ptr.copy_((self.ptr + len(keys)) % self.K)

    def forward(self, view_q, view_k):
        q = self.q_enc(view_q)
        with torch.no_grad():
            self._ema()
            k = self.k_enc(view_k)
        pos = (q * k).sum(-1, keepdim=True)
        neg = q @ self.queue.clone().T
        logits = torch.cat([pos, neg], dim=1) / self.T
        target = torch.zeros(len(q), dtype=torch.long, device=q.device)
        loss = F.cross_entropy(logits, target)
        probs = logits.detach().softmax(dim=-1)
        self._push(k)
        return loss, {"p_pos": probs[:, 0].mean(), "top1": (logits.argmax(1) == 0).float().mean()}


class LeafEncoder(nn.Sequential):
    def __init__(self, width=32):
        super().__init__(
            nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )


if __name__ == "__main__":
    net = QueueContrast(LeafEncoder(), 32, K=64)
    opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.03, momentum=0.9)
    for _ in range(3):
        x = torch.rand(8, 3, 32, 32)
        loss, info = net(x + 0.05 * torch.randn_like(x), x.flip(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(float(loss), float(info["top1"]))
