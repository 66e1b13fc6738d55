"""Low-memory history for an on-board robot policy.

The arm keeps its whole episode in RAM, so only a small latent per step is
stored (multi-head latent attention). Up-projections are folded into the query
and into the output, so keys and values are never materialised.
"""
from typing import Optional, Tuple
import torch
from torch import nn, Tensor

State = Tuple[Tensor, Tensor]


def spin(x: Tensor, pos: Tensor, base: float = 1e4) -> Tensor:
    """Rotary embedding, neighbouring pairs (x0,x1),(x2,x3)...; x: (..., T, r)."""
    r = x.shape[-1]
    inv = base ** (-torch.arange(0, r, 2, dtype=torch.float64, device=x.device) / r)
    ang = pos[:, None].double() * inv
    c, s = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * c - b * s, a * s + b * c), dim=-1).flatten(-2)


class LatentHistory(nn.Module):
    """Causal. forward(x, state) -> (y, state); state = (latents, rotary keys) or None.

    Feeding an episode at once or step by step gives the same y.
    """

    def __init__(self, dim: int, heads: int, nope: int = 16, rope: int = 8, rank: int = 12):
        super().__init__()
        self.h, self.nope, self.rope, self.rank = heads, nope, rope, rank
        self.wq = nn.Linear(dim, heads * (nope + rope), bias=False)
        self.w_down = nn.Linear(dim, rank + rope, bias=False)
        self.norm = nn.LayerNorm(rank)
        self.k_up = nn.Parameter(torch.randn(heads, nope, rank) * rank ** -0.5)
        self.v_up = nn.Parameter(torch.randn(heads, nope, rank) * rank ** -0.5)
        self.wo = nn.Linear(heads * nope, dim, bias=False)
        self.scale = (nope + rope) ** -0.5

    def forward(self, x: Tensor, state: Optional[State] = None) -> Tuple[Tensor, State]:
        b, t, _ = x.shape
        past = 0 if state is None else state[0].shape[1]
        pos = torch.arange(past, past + t, device=x.device)

        q = self.wq(x).view(b, t, self.h, -1).transpose(1, 2)
        q_n, q_r = q.split((self.nope, self.rope), dim=-1)
        q_r = spin(q_r, pos)
        c, k_r = self.w_down(x).split((self.rank, self.rope), dim=-1)
        c, k_r = self.norm(c), spin(k_r, pos)
        if state is not None:
            c = torch.cat((state[0], c), dim=1)
            k_r = torch.cat((state[1], k_r), dim=1)

        q_lat = torch.einsum("bhtn,hnr->bhtr", q_n, self.k_up)
        s = torch.einsum("bhtr,blr->bhtl", q_lat, c)
        s = s + torch.einsum("bhtr,blr->bhtl", q_r, k_r)
        future = torch.arange(past + t, device=x.device)[None] > pos[:, None]
        p = (s * self.scale).masked_fill(future, float("-inf")).softmax(-1)
        o_lat = torch.einsum("bhtl,blr->bhtr", p, c)
        o = torch.einsum("bhtr,hnr->bthn", o_lat, self.v_up)
        return self.wo(o.flatten(2)), (c, k_r)


class Policy(nn.Module):
    def __init__(self, obs: int = 21, act: int = 7, dim: int = 48):
        super().__init__()
        self.inp = nn.Linear(obs, dim)
        self.mem = LatentHistory(dim, heads=3)
        self.out = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, act), nn.Tanh())

    @torch.no_grad()
    def act(self, obs: Tensor, state: Optional[State] = None):
        h = self.inp(obs)[:, None]
        y, state = self.mem(h, state)
        return self.out((h + y)[:, 0]), state
