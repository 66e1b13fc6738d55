import torch
import torch.nn as nn
import torch.nn.functional as F


class RoboPolicy(nn.Module):
    """Robot arm policy: each new observation reads everything seen so far in the episode.

    step(obs, past): obs (B, O); past is None at the start, else the tuple of the last call
    returns the action (B, A) and the new past. Keys and values are (B, t, D), oldest first.
    """

    def __init__(self, obs=9, act=4, dim=32):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(obs, dim), nn.Tanh())
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.age = nn.Parameter(torch.zeros(1))
        self.pi = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, act))

    def step(self, obs, past=None):
        x = self.enc(obs)[:, None]
        q, k, v = self.q(x), self.k(x), self.v(x)
        if past is not None:
            k = torch.cat([past[0], k], dim=1)
            v = torch.cat([v, past[1]], dim=1)
        t = k.size(1)
        back = torch.arange(t - 1, -1, -1, device=obs.device)
        s = (q @ k.transpose(1, 2)) / q.size(-1) ** 0.5 - F.softplus(self.age) * back
        ctx = s.softmax(-1) @ v
        return self.pi(torch.cat([x, ctx], -1))[:, 0], (k, v)

    def forward(self, episode):
        """episode (B, T, O) -> actions (B, T, A)"""
        past, acts = None, []
        for o in episode.unbind(1):
            a, past = self.step(o, past)
            acts.append(a)
        return torch.stack(acts, 1)
