"""Early warning on ICU timelines.

`EventReader.forward` gives back, beside the summary, the attention distribution over the
events.  It is shown to the clinicians as "why", and the entropy penalty of the training
loss reads it, so it is always a distribution: non negative, each row sums to one.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TimeCode(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.freq = nn.Parameter(torch.logspace(-2, 1, dim // 2))

    def forward(self, hours):
        a = hours.unsqueeze(-1) * self.freq
        return torch.cat([a.sin(), a.cos()], -1)


class EventReader(nn.Module):
    def __init__(self, dim=32, heads=2, dropout=0.2):
        super().__init__()
        self.heads = heads
        self.seed = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)
        self.dropout = dropout

    def forward(self, events, recorded):
        """events [B, T, D]; recorded [B, T] bool, True = a real event, at least one."""
        b, t, d = events.shape
        q = self.q_proj(self.seed.expand(b, -1, -1))
        shape = lambda z: z.view(b, -1, self.heads, d // self.heads).transpose(1, 2)
        q, k, v = shape(q), shape(self.k_proj(events)), shape(self.v_proj(events))
        logits = q @ k.mT / (d // self.heads) ** 0.5
        logits = logits.masked_fill(~recorded[:, None, None, :], -torch.inf)
        attn = logits.softmax(-1)
        attn = F.dropout(attn, self.dropout, self.training)
        summary = (attn @ v).transpose(1, 2).reshape(b, 1, d)
        return self.out_proj(summary).squeeze(1), attn.squeeze(2)


class DeteriorationModel(nn.Module):
    def __init__(self, codes, dim=32):
        super().__init__()
        self.emb = nn.Embedding(codes, dim)
        self.time = TimeCode(dim)
        self.read = EventReader(dim)
        self.risk = nn.Linear(dim, 1)

    def forward(self, codes, hours, recorded):
        s, why = self.read(self.emb(codes) + self.time(hours), recorded)
        return self.risk(s).squeeze(-1), why


def loss_fn(logit, label, why, beta=1e-3):
    ent = -(why.clamp_min(1e-9).log() * why).sum(-1).mean()
    return F.binary_cross_entropy_with_logits(logit, label) + beta * ent
