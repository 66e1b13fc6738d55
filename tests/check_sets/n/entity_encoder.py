import torch
from torch import nn


class EntityAttention(nn.Module):
    """Attention among the entities that an agent sees.  entities (B, N, dim); present (B, N), 1.0 for entities in sight and 0.0 otherwise.
    Absent entities get no weight."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)

    def forward(self, entities, present):
        B, N, D = entities.shape
        q = self.query(entities).view(B, N, self.heads, -1).transpose(1, 2)
        k = self.key(entities).view(B, N, self.heads, -1).transpose(1, 2)
        v = self.value(entities).view(B, N, self.heads, -1).transpose(1, 2)
        logits = q @ k.transpose(2, 3) / (D // self.heads) ** 0.5
        logits = logits * present[:, None, None, :]
        attn = torch.softmax(logits, dim=-1)
        return (attn @ v).transpose(1, 2).reshape(B, N, D)
