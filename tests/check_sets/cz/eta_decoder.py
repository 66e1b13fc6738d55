import torch
from torch import nn


class LegScorer(nn.Module):
    def __init__(self, n_s, n_e, n_a):
        super().__init__()
        self.W_s = nn.Linear(n_s, n_a, bias=False)
        self.W_e = nn.Linear(n_e, n_a, bias=True)
        self.v_a = nn.Parameter(torch.randn(n_a))

    def forward(self, s, enc):
        joint = self.W_s(s).unsqueeze(1) + self.W_e(enc)
        return joint @ self.v_a


class EtaDecoder(nn.Module):
    """Predicts the travel time of each leg of a route, leg after leg (additive attention).

    enc (B, S, n_e) encoded road segments, n_seg (B,) real segments (>= 1), steps = number of legs.
    Returns times (B, steps) and attention maps (B, steps, S).
    """

    def __init__(self, n_e=10, n_s=12, n_a=8):
        super().__init__()
        self.score = LegScorer(n_s, n_e, n_a)
        self.rnn = nn.GRUCell(n_e + 1, n_s)
        self.read = nn.Linear(n_s + n_e, 1)
        self.n_s = n_s

    def forward(self, enc, n_seg, steps=3):
        s = enc.new_zeros(enc.size(0), self.n_s)
        t = enc.new_zeros(enc.size(0), 1)
        empty = torch.arange(enc.size(1), device=enc.device)[None] >= n_seg[:, None]
        times, maps = [], []
        for _ in range(steps):
            a = self.score(s, enc).masked_fill(empty, float("-inf")).softmax(dim=-1)
            c = torch.einsum("bs,bse->be", a, enc)
            s = self.rnn(torch.cat([c, t], 1), s)
            t = self.read(torch.cat([s, c], 1))
            times.append(t)
            maps.append(a)
        return torch.cat(times, 1), torch.stack(maps, 1)
