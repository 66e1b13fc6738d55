"""Query / key contrast head with a memory queue (MoCo v2 style)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class QueryKeyHead(nn.Module):
    """q, k: features (B, D) of two views. Returns (loss, accuracy).

    Row i of the logits: similarity of q_i with its own key first, then with the whole
    queue. Keys are not trained through this head. The queue is updated when training.
    """

    def __init__(self, dim=32, proj=16, size=64, tau=0.2):
        super().__init__()
        self.query = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, proj))
        self.key = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, proj))
        self.key.load_state_dict(self.query.state_dict())
        for p in self.key.parameters():
            p.requires_grad_(False)
        self.register_buffer("memory", F.normalize(torch.randn(size, proj), dim=-1))
        self.register_buffer("ptr", torch.zeros((), dtype=torch.long))
        self.tau = tau

    @torch.no_grad()
    def momentum(self, m=0.999):
        for a, b in zip(self.query.parameters(), self.key.parameters()):
            b.mul_(m).add_(a, alpha=1 - m)

    @torch.no_grad()
    def push(self, k):
        n = self.memory.size(0)
        at = (self.ptr + torch.arange(k.size(0), device=k.device)) % n
        self.memory[at] = k
        self.ptr.copy_((self.ptr + k.size(0)) % n)

    def forward(self, q, k):
        q = F.normalize(self.query(q), dim=-1)
        with torch.no_grad():
            k = F.normalize(self.key(k), dim=-1)
        pos = (q * k).sum(-1, keepdim=True)
        neg = q @ self.memory.clone().T
        scores = torch.cat([pos, neg], 1) / self.tau
        target = scores.new_zeros(q.size(0), dtype=torch.long)
        loss = F.cross_entropy(scores, target)
        acc = (scores.softmax(-1).argmax(-1) == target).float().mean()
        if self.training:
            self.push(k)
        return loss, acc
