"""Entity-based actor-critic (PPO) for the particle environments.

The observation is a set of entities (landmarks, other agents); they exchange information through
self-attention within one observation and are then pooled.
"""
import torch
import torch.nn as nn
from torch.distributions import Categorical


def layer_init(layer, std=2 ** 0.5):
    nn.init.orthogonal_(layer.weight, std)
    nn.init.zeros_(layer.bias)
    return layer


class EntityEncoder(nn.Module):
    """entities: (batch, n_entities, feat) -> (batch, n_entities, embed)"""

    def __init__(self, feat=7, embed=32, heads=4):
        super().__init__()
        self.inp = layer_init(nn.Linear(feat, embed))
        self.norm = nn.LayerNorm(embed)
        self.attn = nn.MultiheadAttention(embed, heads)
        self.mlp = nn.Sequential(
            nn.LayerNorm(embed), layer_init(nn.Linear(embed, embed)), nn.Tanh()
        )

    def forward(self, entities):
        x = torch.tanh(self.inp(entities))
        n = self.norm(x)
        mixed, _ = self.attn(n, n, n)
        x = x + mixed
        return x + self.mlp(x)


class EntityActorCritic(nn.Module):
    def __init__(self, feat=7, n_actions=5, embed=32, heads=4):
        super().__init__()
        self.encoder = EntityEncoder(feat, embed, heads)
        self.actor = layer_init(nn.Linear(embed, n_actions), std=0.01)
        self.critic = layer_init(nn.Linear(embed, 1), std=1.0)

    def forward(self, entities):
        """(batch, n_entities, feat) -> logits (batch, n_actions), value (batch,)"""
        pooled = self.encoder(entities).mean(dim=1)
        return self.actor(pooled), self.critic(pooled).squeeze(-1)

    def get_action_and_value(self, entities, action=None):
        logits, value = self(entities)
        dist = Categorical(logits=logits)
        if action is None:
            action = dist.sample()
        return action, dist.log_prob(action), dist.entropy(), value
