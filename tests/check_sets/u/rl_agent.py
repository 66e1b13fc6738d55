import torch
import torch.nn as nn


class EntityEncoder(nn.Module):
    def __init__(self, obs_dim=6, dim=16, heads=2):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(obs_dim, dim), nn.ReLU())
        self.attn = nn.MultiheadAttention(dim, heads)
        self.norm = nn.LayerNorm(dim)

    def forward(self, entities):
        # (envs, n_entities, obs_dim) -> (envs, dim)
        x = self.embed(entities)
        y, _ = self.attn(x, x, x)
        return self.norm(x + y).mean(dim=1)


class ActorCritic(nn.Module):
    def __init__(self, obs_dim=6, dim=16, heads=2, actions=5):
        super().__init__()
        self.encoder = EntityEncoder(obs_dim, dim, heads)
        self.pi = nn.Linear(dim, actions)
        self.vf = nn.Linear(dim, 1)

    def forward(self, entities):
        z = self.encoder(entities)
        return self.pi(z), self.vf(z).squeeze(-1)

    def act(self, entities):
        logits, value = self(entities)
        dist = torch.distributions.Categorical(logits=logits)
        a = dist.sample()
        return a, dist.log_prob(a), value
