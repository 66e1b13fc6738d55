"""Policy for a grid-world with several entities.

The agent sees a crowd of entities (enemies, allies, items); they exchange information by
self-attention, are max-pooled and fed to the actor and critic heads. Environments in a batch are independent.
"""
import torch
from torch import nn
from torch.distributions import Categorical


def layer_init(layer, std=2 ** 0.5, bias=0.0):
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


class EntityAttention(nn.Module):
    """crowd: (n_envs, n_entities, embed), same shape out. Entities of one environment talk to each other."""

    def __init__(self, embed=32, heads=4):
        super().__init__()
        self.ln = nn.LayerNorm(embed)
        self.gossip = nn.MultiheadAttention(embed, heads)
        self.post = nn.Sequential(nn.LayerNorm(embed), layer_init(nn.Linear(embed, embed)), nn.ReLU())

    def forward(self, crowd):
        calm = self.ln(crowd)
        rumour, _ = self.gossip(calm, calm, calm, need_weights=False)
        crowd = crowd + rumour
        return crowd + self.post(crowd)


class EntityPolicy(nn.Module):
    def __init__(self, feat=10, embed=32, heads=4, n_actions=6):
        super().__init__()
        self.enc = nn.Sequential(layer_init(nn.Linear(feat, embed)), nn.Tanh())
        self.attn = EntityAttention(embed, heads)
        self.actor = layer_init(nn.Linear(embed, n_actions), std=0.01)
        self.critic = layer_init(nn.Linear(embed, 1), std=1.0)

    def forward(self, obs):
        """obs: (n_envs, entities, feat)"""
        h = self.attn(self.enc(obs)).amax(dim=1)
        return self.actor(h), self.critic(h).squeeze(-1)

    def act(self, obs, action=None):
        logits, value = self(obs)
        dist = Categorical(logits=logits)
        if action is None:
            action = dist.sample()
        return action, dist.log_prob(action), dist.entropy(), value
