"""Firing controller for a gas kiln: predicts cone temperature from thermocouples.

Runs on a small board next to the kiln, so attention is kept as a running
state (feature map elu(x)+1, Katharopoulos et al. 2020); training uses the
parallel form over the whole firing. Both forms must agree.
"""
import torch
import torch.nn.functional as F
from torch import nn

CONES = {"06": 999, "04": 1063, "6": 1222, "10": 1285}      # deg C


def phi(x):
    return F.elu(x) + 1


def ramp(seconds, start, target, per_hour):
    """planned curve, deg C"""
    t = start + per_hour * seconds / 3600.0
    return torch.minimum(t, torch.full_like(t, float(target)))


class KilnState:
    __slots__ = ("S", "z")

    def __init__(self, S, z):
        self.S, self.z = S, z

    @classmethod
    def cold(cls, batch, heads, d):
        return cls(torch.zeros(batch, heads, d, d), torch.zeros(batch, heads, d))


class FiringAttention(nn.Module):
    """Causal linear attention. No softmax, no 1/sqrt(d): positive features do it."""

    def __init__(self, width, heads, eps=1e-6):
        super().__init__()
        self.h, self.d, self.eps = heads, width // heads, eps
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def _split(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        f = lambda t: t.reshape(*t.shape[:-1], self.h, self.d).movedim(-2, 1)
        return phi(f(q)), phi(f(k)), f(v)

    def forward(self, x):
        """x [B, T, width] -> [B, T, width]; row t depends on rows <= t."""
        q, k, v = self._split(x)
        kv = torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(2)
        norm = torch.einsum("bhtd,bhtd->bht", q, k.cumsum(2)).clamp_min(self.eps)
        y = torch.einsum("bhtd,bhtde->bhte", q, kv) / norm.unsqueeze(-1)
        return self.proj(y.transpose(1, 2).flatten(2))

    @torch.no_grad()
    def step(self, x, state):
        """x [B, width], one reading; the state is changed and returned."""
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        f = lambda t: t.reshape(-1, self.h, self.d)
        q, k, v = phi(f(q)), phi(f(k)), f(v)
        state.S = state.S + k.unsqueeze(-1) * v.unsqueeze(-2)
        state.z = state.z + k
        num = (q.unsqueeze(-2) @ state.S).squeeze(-2)
        den = (q * state.z).sum(-1, keepdim=True).clamp_min(self.eps)
        return self.proj((num / den).flatten(1)), state


class ConePredictor(nn.Module):
    def __init__(self, sensors=6, width=32, heads=4):
        super().__init__()
        self.inp = nn.Linear(sensors, width)
        self.att = FiringAttention(width, heads)
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, readings):
        h = self.inp(readings / 1000.0)
        return self.out(h + self.att(h)).squeeze(-1) * 1000.0


if __name__ == "__main__":
    torch.manual_seed(0)
    net = ConePredictor().eval()
    temps = torch.rand(1, 50, 6) * 1200
    whole = net.att(net.inp(temps / 1000.0))
    st = KilnState.cold(1, 4, 8)
    for t in range(50):
        y, st = net.att.step(net.inp(temps[:, t] / 1000.0), st)
    print("difference of the two forms:", (whole[:, -1] - y).abs().max().item())
