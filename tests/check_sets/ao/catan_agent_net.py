"""Policy network for my Catan bot. Entities (settlements, roads, robber, players) are tokens."""
import torch
from torch import nn


class UnitAttention(nn.Module):
    """entities look at each other; alive: bool [B, N] (True = entity is on the board)"""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.hd = dim // heads
        self.proj_q = nn.Linear(dim, dim)
        self.proj_k = nn.Linear(dim, dim)
        self.proj_v = nn.Linear(dim, dim)
        self.proj_o = nn.Linear(dim, dim)

    def _fold(self, t):
        B, N, _ = t.shape
        t = t.view(B, N, self.heads, self.hd).transpose(1, 2)
        return t.reshape(B * self.heads, N, self.hd)

    def forward(self, x, alive):
        B, N, D = x.shape
        q, k, v = self._fold(self.proj_q(x)), self._fold(self.proj_k(x)), self._fold(self.proj_v(x))
        att = torch.bmm(q, k.transpose(1, 2)) * self.hd ** -0.5
        dead = (~alive).repeat_interleave(self.heads, dim=0)
        att = att.masked_fill(dead[:, None, :], -1e9)
        att = torch.softmax(att, dim=-1)
        out = torch.bmm(att, v)
        out = out.view(self.heads, B, N, self.hd).permute(1, 2, 0, 3).reshape(B, N, D)
        return self.proj_o(out)


class EntityBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.att = UnitAttention(dim, heads)
        self.ln1 = nn.LayerNorm(dim)
        self.ln2 = nn.LayerNorm(dim)
        self.fc = nn.Sequential(nn.Linear(dim, dim * 2), nn.ReLU(), nn.Linear(dim * 2, dim))

    def forward(self, x, alive):
        x = self.ln1(x + self.att(x, alive))
        return self.ln2(x + self.fc(x))


class CatanNet(nn.Module):
    N_ACTIONS = 314

    def __init__(self, feat=24, dim=64, heads=4, depth=3):
        super().__init__()
        self.kind = nn.Embedding(12, dim)
        self.inp = nn.Linear(feat, dim)
        self.blocks = nn.ModuleList(EntityBlock(dim, heads) for _ in range(depth))
        self.pi = nn.Linear(dim, self.N_ACTIONS)
        self.val = nn.Linear(dim, 1)

    def forward(self, obs):
        x = self.inp(obs["feat"]) + self.kind(obs["kind"])
        alive = obs["alive"]
        for b in self.blocks:
            x = b(x, alive)
        w = alive.unsqueeze(-1).float()
        g = (x * w).sum(1) / w.sum(1).clamp(min=1)
        logits = self.pi(g).masked_fill(~obs["legal"], -1e9)
        return torch.distributions.Categorical(logits=logits), torch.tanh(self.val(g)).squeeze(-1)


def ppo_loss(net, batch, clip=0.2, vf=0.5, ent=0.01):
    dist, v = net(batch["obs"])
    ratio = torch.exp(dist.log_prob(batch["act"]) - batch["logp"])
    adv = (batch["adv"] - batch["adv"].mean()) / (batch["adv"].std() + 1e-8)
    pg = -torch.min(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv).mean()
    return pg + vf * (v - batch["ret"]).pow(2).mean() - ent * dist.entropy().mean()
