import torch
import torch.nn as nn
import torch.nn.functional as F

"""
Entity attention policy (multi-agent grid world).  Entities come padded to n_max.
"""


class EntityAttention(nn.Module):
    def __init__(self, in_dim, embed_dim, n_heads):
        super().__init__()
        assert embed_dim % n_heads == 0
        self.embed_dim, self.n_heads, self.head_dim = embed_dim, n_heads, embed_dim // n_heads
        self.in_trans = nn.Linear(in_dim, embed_dim * 3, bias=False)
        self.out_trans = nn.Linear(embed_dim, embed_dim)

    def forward(self, entities, absent):
        """entities [bs, n_entities, in_dim]; absent [bs, n_entities], 1 where the slot holds no entity"""
        bs, ne, _ = entities.shape
        q, k, v = self.in_trans(entities).chunk(3, dim=2)
        # stack heads along the batch axis: [n_heads * bs, n_entities, head_dim]
        q = torch.cat(q.split(self.head_dim, dim=2), dim=0)
        k = torch.cat(k.split(self.head_dim, dim=2), dim=0)
        v = torch.cat(v.split(self.head_dim, dim=2), dim=0)

        logits = torch.bmm(q, k.transpose(1, 2)) / self.head_dim ** 0.5
        m = absent.bool().unsqueeze(1).expand(bs, ne, ne)
        m = m.repeat_interleave(self.n_heads, dim=0)
        logits = logits.masked_fill(m, -1e9)
        weights = F.softmax(logits, dim=2)

        out = torch.bmm(weights, v)
        out = torch.cat(out.split(bs, dim=0), dim=2)
        out = self.out_trans(out)
        return out.masked_fill(absent.bool().unsqueeze(2), 0)


class EntityPolicy(nn.Module):
    def __init__(self, entity_dim=10, embed_dim=32, n_heads=4, n_actions=5):
        super().__init__()
        self.fc1 = nn.Linear(entity_dim, embed_dim)
        self.attn = EntityAttention(embed_dim, embed_dim, n_heads)
        self.fc2 = nn.Linear(embed_dim, embed_dim)
        self.pi = nn.Linear(embed_dim, n_actions)
        self.val = nn.Linear(embed_dim, 1)

    def forward(self, entities, absent):
        x1 = F.relu(self.fc1(entities))
        x2 = self.attn(x1, absent)
        x3 = F.relu(self.fc2(x1 + x2))
        keep = 1.0 - absent.to(x3.dtype).unsqueeze(2)
        pooled = (x3 * keep).sum(1) / keep.sum(1).clamp(min=1.0)
        return F.log_softmax(self.pi(pooled), -1), self.val(pooled).squeeze(-1)
