"""Entity-based policy for the multi-agent warehouse game.

Every agent sees itself, other robots, crates and ramps; what stands behind a wall is not
visible.  All entities are embedded into the same width and mixed with one residual
self-attention block, then pooled over the visible ones.

Shapes: B environments, A agents, E entities.  seen [B, A, E] is True for visible entities.
"""
from typing import Dict, Tuple

import torch
import torch.nn as nn
from torch.distributions import Categorical


class EntityEmbedding(nn.Module):
    def __init__(self, sizes: Dict[str, int], width: int):
        super().__init__()
        self.nets = nn.ModuleDict({name: nn.Linear(n, width) for name, n in sizes.items()})

    def forward(self, obs: Dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.cat([torch.relu(self.nets[name](obs[name])) for name in self.nets], dim=2)


class VisibleSelfAttention(nn.Module):
    """An agent with nothing in sight gets zeros from here, i.e. only the residual is left."""

    def __init__(self, width: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.head = width // n_heads
        self.pre = nn.LayerNorm(width)
        self.qk = nn.Linear(width, 2 * width)
        self.v = nn.Linear(width, width)
        self.post = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        B, A, E, W = x.shape
        y = self.pre(x)
        qk = self.qk(y).view(B, A, E, 2, self.n_heads, self.head)
        q, k = qk[..., 0, :, :], qk[..., 1, :, :]
        v = self.v(y).view(B, A, E, self.n_heads, self.head)
        logits = torch.einsum("baihd,bajhd->bahij", q, k) / self.head ** 0.5
        hidden = ~seen[:, :, None, None, :]                       # keys only
        logits = logits.masked_fill(hidden, float("-inf"))
        top = logits.amax(-1, keepdim=True).clamp_min(torch.finfo(logits.dtype).min)
        w = (logits - top).exp()
        w = w / w.sum(-1, keepdim=True).clamp_min(1e-20)
        out = torch.einsum("bahij,bajhd->baihd", w, v).reshape(B, A, E, W)
        return x + self.post(out) * seen.any(-1)[..., None, None]


def pool_visible(x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    m = seen[..., None].to(x.dtype)
    return (x * m).sum(2) / m.sum(2).clamp_min(1.0)


class WarehousePolicy(nn.Module):
    def __init__(self, own: int, sizes: Dict[str, int], n_actions: int, width: int = 64, heads: int = 4):
        super().__init__()
        self.own = nn.Linear(own, width)
        self.embed = EntityEmbedding(sizes, width)
        self.attend = VisibleSelfAttention(width, heads)
        self.core = nn.GRUCell(2 * width, width)
        self.pi = nn.Linear(width, n_actions)
        self.value = nn.Linear(width, 1)

    def initial_state(self, B: int, A: int) -> torch.Tensor:
        return torch.zeros(B, A, self.core.hidden_size)

    def forward(self, own, obs, seen, state) -> Tuple[Categorical, torch.Tensor, torch.Tensor]:
        B, A = own.shape[:2]
        me = torch.relu(self.own(own))
        ents = self.attend(self.embed(obs), seen)
        x = torch.cat([me, pool_visible(ents, seen)], dim=-1)
        h = self.core(x.flatten(0, 1), state.flatten(0, 1)).view(B, A, -1)
        return Categorical(logits=self.pi(h)), self.value(h).squeeze(-1), h


def ppo_loss(new_logp, old_logp, adv, value, ret, entropy, clip=0.2, c_v=0.5, c_e=0.01):
    ratio = (new_logp - old_logp).exp()
    gain = torch.minimum(ratio * adv, ratio.clamp(1 - clip, 1 + clip) * adv)
    return -gain.mean() + c_v * (value - ret).pow(2).mean() - c_e * entropy.mean()


if __name__ == "__main__":
    torch.manual_seed(0)
    sizes = {"robots": 6, "crates": 5, "ramps": 4}
    net = WarehousePolicy(own=8, sizes=sizes, n_actions=9)
    B, A = 2, 3
    obs = {"robots": torch.randn(B, A, 2, 6), "crates": torch.randn(B, A, 4, 5), "ramps": torch.randn(B, A, 1, 4)}
    seen = torch.rand(B, A, 7) > 0.4
    seen[0, 0] = False
    dist, v, h = net(torch.randn(B, A, 8), obs, seen, net.initial_state(B, A))
    a = dist.sample()
    loss = ppo_loss(dist.log_prob(a), dist.log_prob(a).detach(), torch.randn(B, A), v,
                    torch.zeros(B, A), dist.entropy())
    loss.backward()
    print(a.shape, loss.item(), all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None))
