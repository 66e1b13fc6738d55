"""Scores items against a search session.

The session is a padded list of event vectors.  The query vector reads the real events
through multi-head attention, the result is matched with every candidate item.
"""
import torch
import torch.nn as nn


class SessionReader(nn.Module):
    """`lengths[b]` is the number of real events in session b, the rest is padding."""

    def __init__(self, event_dim=14, dim=24, num_heads=4, dropout=0.0):
        super().__init__()
        self.event_in = nn.Linear(event_dim, dim)
        self.attn = nn.MultiheadAttention(dim, num_heads, dropout=dropout, batch_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, query, events, lengths):
        h = self.event_in(events)                                   # B, T, dim
        steps = torch.arange(events.shape[1], device=events.device)
        mask = steps.unsqueeze(0) < lengths.unsqueeze(1)            # B, T
        ctx, _ = self.attn(query.unsqueeze(1), h, h, key_padding_mask=mask, need_weights=False)
        return self.norm(query + ctx.squeeze(1))


class QueryItemRanker(nn.Module):
    def __init__(self, query_dim=10, event_dim=14, item_dim=12, dim=24):
        super().__init__()
        self.query_in = nn.Sequential(nn.Linear(query_dim, dim), nn.Tanh())
        self.item_in = nn.Linear(item_dim, dim)
        self.reader = SessionReader(event_dim, dim)
        self.temperature = nn.Parameter(torch.tensor(1.0))

    def forward(self, query, events, lengths, items):
        # query B x query_dim, events B x T x event_dim, items B x N x item_dim
        user = self.reader(self.query_in(query), events, lengths)
        return torch.einsum("bd,bnd->bn", user, self.item_in(items)) * self.temperature


def listwise_loss(scores, clicked):
    """Softmax cross entropy, clicked [B] is the index of the clicked item."""
    return nn.functional.cross_entropy(scores, clicked)
