# Policy/value net for hex-like boards.  Tokens are cells; off-board cells of the
# padded square are marked False in `on_board` and must never be looked at.
import torch
from torch import nn
import torch.nn.functional as F

KOMI = 0.0
PLANES = 6


class GRUGate(nn.Module):
    # GTrXL gate, biased towards the identity at the start
    def __init__(self, d, bias=2.0):
        super().__init__()
        self.wr, self.ur = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.wz, self.uz = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.wg, self.ug = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.bias = nn.Parameter(torch.full((d,), bias))

    def forward(self, x, y):
        r = torch.sigmoid(self.wr(y) + self.ur(x))
        z = torch.sigmoid(self.wz(y) + self.uz(x) - self.bias)
        h = torch.tanh(self.wg(y) + self.ug(r * x))
        return (1 - z) * x + z * h


class CellMixer(nn.Module):
    """Attention between cells where heads talk to each other.

    logits are mixed over heads before the softmax (`talk_in`), weights are
    mixed over heads after it (`talk_out`), as in "Talking-Heads Attention".
    The mixed weights are signed, rows need not add up to one.
    """

    def __init__(self, d_model, n_heads):
        super().__init__()
        assert d_model % n_heads == 0
        self.h, self.d = n_heads, d_model // n_heads
        self.q = nn.Linear(d_model, d_model)
        self.kv = nn.Linear(d_model, 2 * d_model)
        self.talk_in = nn.Parameter(torch.eye(n_heads) + 0.05 * torch.randn(n_heads, n_heads))
        self.talk_out = nn.Parameter(torch.eye(n_heads) + 0.05 * torch.randn(n_heads, n_heads))
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x, on_board):
        n, c, _ = x.shape
        q = self.q(x).reshape(n, c, self.h, self.d)
        k, v = self.kv(x).reshape(n, c, 2, self.h, self.d).unbind(2)
        logits = torch.einsum('nqhd,nkhd->nhqk', q, k) / self.d ** 0.5
        logits = torch.einsum('nhqk,hg->ngqk', logits, self.talk_in)
        logits = logits.masked_fill(~on_board[:, None, None, :], torch.finfo(logits.dtype).min)
        w = F.softmax(logits, dim=-1)
        w = torch.einsum('ngqk,gm->nmqk', w, self.talk_out)
        out = torch.einsum('nhqk,nkhd->nqhd', w, v)
        return self.proj(out.reshape(n, c, -1))


class Layer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mix, self.g1, self.g2 = CellMixer(d, h), GRUGate(d), GRUGate(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))

    def forward(self, x, on_board):
        x = self.g1(x, F.relu(self.mix(self.n1(x), on_board)))
        return self.g2(x, F.relu(self.ff(self.n2(x))))


class PolicyValue(nn.Module):
    def __init__(self, size=7, d=32, h=4, depth=2):
        super().__init__()
        self.stem = nn.Linear(PLANES, d)
        self.where = nn.Parameter(torch.randn(size * size, d) * 0.02)
        self.layers = nn.ModuleList(Layer(d, h) for _ in range(depth))
        self.pi, self.v = nn.Linear(d, 1), nn.Linear(d, 1)

    def forward(self, planes, on_board, legal):
        x = self.stem(planes.flatten(2).transpose(1, 2)) + self.where
        for l in self.layers:
            x = l(x, on_board)
        logp = self.pi(x).squeeze(-1).masked_fill(~legal, -1e30).log_softmax(-1)
        m = on_board.to(x.dtype)[..., None]
        val = torch.tanh(self.v((x * m).sum(1) / m.sum(1))).squeeze(-1) + KOMI
        return logp, val
