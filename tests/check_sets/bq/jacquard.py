"""Jacquard loom: finds broken warp ends from the lift plan (one row per pick).

The heads are stacked along the batch axis (as in the old TensorFlow
implementation by Kyubyong), which keeps every matmul three-dimensional.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

HOOKS = 1344
WEAVES = {"plain": (1, 1), "twill": (2, 2), "satin5": (4, 1), "satin8": (7, 1)}


def lift_plan(weave, ends, picks):
    up, down = WEAVES[weave]
    r = up + down
    e = torch.arange(ends)[None, :]
    p = torch.arange(picks)[:, None]
    return ((e - p) % r < up).float()


class PickAttention(nn.Module):
    """Self-attention over picks.

    x    (N, T, C)
    keep (N, T) bool - True for picks that were really woven, False for filler
    """

    def __init__(self, channels, heads=3, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.channels = channels
        self.Q = nn.Linear(channels, channels)
        self.K = nn.Linear(channels, channels)
        self.V = nn.Linear(channels, channels)
        self.O = nn.Linear(channels, channels)
        self.dropout = dropout

    def forward(self, x, keep=None):
        N, T, C = x.shape
        h, d = self.heads, C // self.heads

        stack = lambda t: torch.cat(t.split(d, dim=2), dim=0)       # (h*N, T, d)
        q, k, v = stack(self.Q(x)), stack(self.K(x)), stack(self.V(x))
        energy = torch.bmm(q, k.transpose(1, 2)) / d ** 0.5

        if keep is not None:
            filler = (~keep).repeat_interleave(h, dim=0)
            energy = energy.masked_fill(filler[:, None, :], -1e9)

        alpha = F.softmax(energy, dim=2)
        alpha = F.dropout(alpha, self.dropout, training=self.training)
        out = torch.bmm(alpha, v)
        out = torch.cat(out.split(N, dim=0), dim=2)                 # (N, T, C)
        return self.O(out)


class WarpInspector(nn.Module):
    def __init__(self, ends=96, channels=48, heads=3, layers=2):
        super().__init__()
        self.embed = nn.Linear(2 * ends, channels)
        self.att = nn.ModuleList([PickAttention(channels, heads) for _ in range(layers)])
        self.ln = nn.ModuleList([nn.LayerNorm(channels) for _ in range(layers)])
        self.broken = nn.Linear(channels, ends)

    def forward(self, plan, camera, woven):
        """plan, camera: (N, picks, ends); woven: (N,) picks woven of every piece"""
        keep = torch.arange(plan.size(1), device=plan.device)[None] < woven[:, None]
        x = self.embed(torch.cat([plan, camera], dim=2))
        for att, ln in zip(self.att, self.ln):
            x = x + att(ln(x), keep)
        return self.broken(x), keep


def loss_fn(logits, target, keep):
    raw = F.binary_cross_entropy_with_logits(logits, target, reduction="none").mean(2)
    return (raw * keep).sum() / keep.sum().clamp(min=1)


def main(steps=3):
    torch.manual_seed(2)
    net = WarpInspector()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    plan = torch.stack([lift_plan(w, 96, 20) for w in WEAVES])
    for i in range(steps):
        broken = (torch.rand(4, 1, 96) < 0.05).float().expand_as(plan)
        camera = plan * (1 - broken) + 0.1 * torch.randn_like(plan)
        logits, keep = net(plan, camera, torch.tensor([20, 13, 17, 9]))
        loss = loss_fn(logits, broken, keep)
        opt.zero_grad(); loss.backward(); opt.step()
        print(i, round(loss.item(), 4))


if __name__ == "__main__":
    main()
