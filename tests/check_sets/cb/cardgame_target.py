"""Target selection for the card-game bot (Hearthstone-like simulator), A2C version.

The policy first picks a card, then *points* at one entity on the board (minion, hero,
own or enemy). The pointer is a plain dot product between the layer-normed controller
state and the layer-normed entity embeddings (no scaling, as in AlphaStar; sharpness is
learned through the layer norm gains). Illegal targets must have probability zero.
"""
from typing import Tuple

import torch
from torch import nn, Tensor
from torch.distributions import Categorical

ILLEGAL = -10.0


class EntityEncoder(nn.Module):
    def __init__(self, n_feats: int, n_cards: int, dim: int):
        super().__init__()
        self.card = nn.Embedding(n_cards, dim)
        self.stats = nn.Linear(n_feats, dim)
        self.mix = nn.Sequential(nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, card_ids: Tensor, stats: Tensor) -> Tensor:
        return self.mix(self.card(card_ids) + self.stats(stats))


class TargetPointer(nn.Module):
    """state [B, D], entities [B, N, D], legal [B, N] bool.

    Returns the target distribution [B, N] and the expected target embedding [B, D]
    (attention read-out, fed to the value head).
    """

    def __init__(self, dim: int):
        super().__init__()
        self.query = nn.Sequential(nn.Linear(dim, dim), nn.LayerNorm(dim))
        self.key = nn.Sequential(nn.Linear(dim, dim), nn.LayerNorm(dim))

    def forward(self, state: Tensor, entities: Tensor, legal: Tensor) -> Tuple[Tensor, Tensor]:
        q = self.query(state)
        k = self.key(entities)
        logits = (k @ q.unsqueeze(-1)).squeeze(-1)
        logits = torch.where(legal, logits, torch.full_like(logits, ILLEGAL))
        probs = torch.softmax(logits, dim=-1)
        readout = torch.einsum("bn,bnd->bd", probs, entities)
        return probs, readout


class Agent(nn.Module):
    def __init__(self, n_feats: int = 6, n_cards: int = 200, dim: int = 32, obs_dim: int = 20):
        super().__init__()
        self.entities = EntityEncoder(n_feats, n_cards, dim)
        self.core = nn.GRUCell(obs_dim + dim, dim)
        self.pointer = TargetPointer(dim)
        self.value = nn.Linear(2 * dim, 1)

    def forward(self, obs: Tensor, card_ids: Tensor, stats: Tensor, legal: Tensor, h: Tensor):
        e = self.entities(card_ids, stats)
        h = self.core(torch.cat([obs, e.mean(1)], -1), h)
        probs, readout = self.pointer(h, e, legal)
        return Categorical(probs=probs), self.value(torch.cat([h, readout], -1)).squeeze(-1), h
