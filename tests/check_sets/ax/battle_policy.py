"""Policy network of the monster battle bot (PPO).

Two teams of six make twelve tokens.  ``fainted`` [B, 12] is True for monsters that are
out of the game; nobody looks at them.  The rollout workers and the learner share one
network: ``choose`` is called between updates, ``evaluate`` inside the update.
Dropout on the attention weights is used by the learner only (net.train()), at every update.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical

TEAM = 6


class TeamAttention(nn.Module):
    def __init__(self, width, heads=4, p_drop=0.1):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.p_drop = p_drop
        self.in_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x, fainted=None):
        B, N, W = x.shape
        if not self.training:
            self.p_drop = 0.0
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q = q.reshape(B, N, self.heads, self.size).transpose(1, 2)
        k = k.reshape(B, N, self.heads, self.size).transpose(1, 2)
        v = v.reshape(B, N, self.heads, self.size).transpose(1, 2)
        score = torch.matmul(q, k.transpose(2, 3)) / self.size ** 0.5
        if fainted is not None:
            score = score.masked_fill(fainted[:, None, None, :], torch.finfo(score.dtype).min)
        w = F.dropout(score.softmax(dim=-1), self.p_drop)
        y = torch.matmul(w, v).transpose(1, 2).reshape(B, N, W)
        return self.out_proj(y)


class BattleNet(nn.Module):
    def __init__(self, species=300, moves=400, stats=10, width=64, depth=2, n_actions=10, p_drop=0.1):
        super().__init__()
        self.species = nn.Embedding(species, width)
        self.moves = nn.EmbeddingBag(moves, width, mode="mean")
        self.stats = nn.Linear(stats, width)
        self.side = nn.Embedding(2, width)
        self.att = nn.ModuleList(TeamAttention(width, p_drop=p_drop) for _ in range(depth))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
                                for _ in range(depth))
        self.n1 = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.n2 = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.pi = nn.Linear(2 * width, n_actions)
        self.vf = nn.Linear(2 * width, 1)

    def forward(self, obs):
        side = torch.arange(2 * TEAM, device=obs["species"].device) // TEAM
        b = obs["species"].size(0)
        mv = self.moves(obs["moves"].flatten(0, 1)).view(b, 2 * TEAM, -1)
        x = self.species(obs["species"]) + mv + self.stats(obs["stats"]) + self.side(side)
        for att, ff, n1, n2 in zip(self.att, self.ff, self.n1, self.n2):
            x = x + att(n1(x), obs["fainted"])
            x = x + ff(n2(x))
        up = (~obs["fainted"]).to(x.dtype).unsqueeze(-1)
        mean = (x * up).sum(1) / up.sum(1).clamp(min=1)
        h = torch.cat([x[:, 0], mean], dim=-1)           # slot 0 = our active monster
        return self.pi(h), self.vf(h).squeeze(-1)

    @torch.no_grad()
    def choose(self, obs, legal, greedy=False):
        was = self.training
        self.eval()
        logits, value = self(obs)
        self.train(was)
        dist = Categorical(logits=logits.masked_fill(~legal, torch.finfo(logits.dtype).min))
        a = dist.probs.argmax(-1) if greedy else dist.sample()
        return a, dist.log_prob(a), value

    def evaluate(self, obs, legal, actions):
        logits, value = self(obs)
        dist = Categorical(logits=logits.masked_fill(~legal, torch.finfo(logits.dtype).min))
        return dist.log_prob(actions), dist.entropy(), value


def ppo_loss(net, batch, clip=0.2, c_v=0.5, c_e=0.01):
    logp, ent, value = net.evaluate(batch["obs"], batch["legal"], batch["actions"])
    ratio = (logp - batch["logp"]).exp()
    adv = batch["adv"]
    surr = torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)
    return -surr.mean() + c_v * F.mse_loss(value, batch["ret"]) - c_e * ent.mean()
