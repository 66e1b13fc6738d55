import torch
from torch import nn
import torch.nn.functional as F


class QueryKeyContrast(nn.Module):
    """InfoNCE loss with a queue of negative keys (MoCo).

    queries, keys: (B, D), row i of keys is the positive of row i of queries.
    Returns the scalar loss; the keys are pushed onto the queue.
    """

    def __init__(self, dim=16, queue_len=32, temperature=0.2):
        super().__init__()
        self.temperature = temperature
        self.register_buffer("queue", F.normalize(torch.randn(queue_len, dim), dim=-1))

    @torch.no_grad()
    def push(self, keys):
        self.queue = torch.cat([keys, self.queue])[: self.queue.size(0)]

    def forward(self, queries, keys):
        q = F.normalize(queries, dim=-1)
        k = F.normalize(keys, dim=-1).detach()
        positive = (q * k).sum(-1, keepdim=True)
        negative = q @ self.queue.clone().T
        logits = torch.cat([positive, negative], dim=1) / self.temperature
        target = torch.zeros(q.size(0), dtype=torch.long, device=q.device)
        loss = F.cross_entropy(logits, target)
        self.push(k)
        return loss
