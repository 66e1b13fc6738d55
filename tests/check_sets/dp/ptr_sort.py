"""Pointer network that sorts: decoder points at one unused input per step.

    u_j = v . tanh(W1 e_j + W2 d_t),  p = softmax over the inputs not yet chosen

``PtrSort(hid)``
    x (B, n) numbers
returns (logp (B, n, n), order (B, n)): per step the log-probabilities over the
inputs (-inf, or practically so, for inputs that were chosen at an earlier step)
and the greedy choice; order[b] is a permutation of 0..n-1.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PtrSort(nn.Module):
    def __init__(self, hid=64):
        super().__init__()
        self.encoder = nn.LSTM(1, hid, batch_first=True)
        self.decoder = nn.LSTMCell(hid, hid)
        self.W1 = nn.Linear(hid, hid, bias=False)
        self.W2 = nn.Linear(hid, hid)
        self.v = nn.Linear(hid, 1, bias=False)
        self.go = nn.Parameter(torch.zeros(hid))

    def point(self, keys, d, used):
        u = self.v(torch.tanh(keys + self.W2(d).unsqueeze(1))).squeeze(2)
        u.masked_fill(used, float("-inf"))
        return F.log_softmax(u, dim=1)

    def forward(self, x):
        B, n = x.shape
        e, (h, c) = self.encoder(x.unsqueeze(-1))
        h, c = h[0], c[0]
        keys = self.W1(e)
        inp = self.go.expand(B, -1)
        used = torch.zeros(B, n, dtype=torch.bool, device=x.device)
        logps, order = [], []
        for _ in range(n):
            h, c = self.decoder(inp, (h, c))
            lp = self.point(keys, h, used)
            pick = lp.argmax(1)
            used = used.scatter(1, pick[:, None], True)
            inp = e[torch.arange(B), pick]
            logps.append(lp)
            order.append(pick)
        return torch.stack(logps, 1), torch.stack(order, 1)
