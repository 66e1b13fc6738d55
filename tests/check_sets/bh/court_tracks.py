"""Player trajectory encoder (basketball SportVU, 10 players + ball).

Attention is factorised: first over the agents of one frame, then over the
frames of one agent. Frames are fully observed (offline analysis), so time
attention is not causal.

Mask convention in this repo: ``absent`` is True where the tracker lost the
agent. It goes straight into ``key_padding_mask`` of torch, which has the same
meaning (True = ignore).
"""
import torch
from torch import nn

TEAM_HOME, TEAM_AWAY, BALL = 0, 1, 2


def build_inputs(xy, team):
    """xy: (B, T, A, 2) in feet -> (B, T, A, 7): position, velocity, one-hot team."""
    vel = torch.zeros_like(xy)
    vel[:, 1:] = xy[:, 1:] - xy[:, :-1]
    one_hot = nn.functional.one_hot(team, 3).to(xy)
    one_hot = one_hot[:, None].expand(-1, xy.size(1), -1, -1)
    return torch.cat([xy / 47.0 - 1.0, vel, one_hot], dim=-1)


class FactorisedLayer(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.agent_norm = nn.LayerNorm(dim)
        self.agent_attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.time_norm = nn.LayerNorm(dim)
        self.time_attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim),
                                 nn.GELU(), nn.Linear(2 * dim, dim))

    @staticmethod
    def _attend(mha, x, absent):
        if absent is None:
            return mha(x, x, x, need_weights=False)[0]
        # a group in which nobody is visible would give NaN: let it look at
        # everything and drop the result
        empty = absent.all(dim=1)
        pad = absent & ~empty[:, None]
        out = mha(x, x, x, key_padding_mask=pad, need_weights=False)[0]
        return out.masked_fill(empty[:, None, None], 0.0)

    def forward(self, x, absent=None):
        """x: (B, T, A, D), absent: (B, T, A) bool or None."""
        b, t, a, d = x.shape
        h = self.agent_norm(x).reshape(b * t, a, d)
        m = None if absent is None else absent.reshape(b * t, a)
        x = x + self._attend(self.agent_attn, h, m).reshape(b, t, a, d)

        h = self.time_norm(x).permute(0, 2, 1, 3).reshape(b * a, t, d)
        m = None if absent is None else absent.permute(0, 2, 1).reshape(b * a, t)
        h = self._attend(self.time_attn, h, m)
        x = x + h.reshape(b, a, t, d).permute(0, 2, 1, 3)
        return x + self.mlp(x)


class PossessionOutcome(nn.Module):
    """Probability of a made shot within the next four seconds."""

    def __init__(self, dim=48, heads=4, layers=2):
        super().__init__()
        self.embed = nn.Linear(7, dim)
        self.layers = nn.ModuleList([FactorisedLayer(dim, heads) for _ in range(layers)])
        self.score = nn.Linear(dim, 1)

    def forward(self, xy, team, absent=None):
        x = self.embed(build_inputs(xy, team))
        for layer in self.layers:
            x = layer(x, absent)
        if absent is not None:
            keep = (~absent).unsqueeze(-1).to(x)
            x = (x * keep).sum((1, 2)) / keep.sum((1, 2)).clamp(min=1.0)
        else:
            x = x.mean((1, 2))
        return self.score(x).squeeze(-1).sigmoid()


def main():
    torch.manual_seed(0)
    team = torch.tensor([[0] * 5 + [1] * 5 + [2]]).expand(2, -1)
    print(PossessionOutcome()(torch.rand(2, 25, 11, 2) * 94, team))


if __name__ == "__main__":
    main()
