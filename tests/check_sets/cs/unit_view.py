import torch
import torch.nn as nn
import torch.nn.functional as F


class UnitEncoder(nn.Module):
    """Entity encoder of a strategy-game agent.

    units: [batch, slots, feat];  alive: [batch, slots] bool, True for slots that hold a
    unit.  Empty slots must not influence the others; at least one slot is filled.
    """

    def __init__(self, feat, dim=16, n_head=2):
        super().__init__()
        self.embed = nn.Linear(feat, dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.merge = nn.Linear(dim, dim)
        self.n_head = n_head
        self.dk = dim // n_head

    def forward(self, units, alive):
        b, n, _ = units.shape
        x = F.relu(self.embed(units))
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(b, n, self.n_head, self.dk).transpose(1, 2)
        k = k.view(b, n, self.n_head, self.dk).transpose(1, 2)
        v = v.view(b, n, self.n_head, self.dk).transpose(1, 2)
        logits = q @ k.transpose(2, 3) / (self.dk ** 0.5)
        empty = alive.logical_not()[:, None, None, :]
        logits.masked_fill(empty, float("-inf"))
        attn = F.softmax(logits, dim=-1)
        out = (attn @ v).transpose(1, 2).contiguous().view(b, n, -1)
        return x + self.merge(out)
