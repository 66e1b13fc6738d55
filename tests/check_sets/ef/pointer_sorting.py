"""Pointer network that learns to sort numbers (seminar "Neural Combinatorics").

forward(numbers)
    numbers (B, N, 1)
    returns log_p (B, N, N): log_p[b, t] is the log-distribution of step t over
            the N inputs, and order (B, N) long, the greedy choices.

An input that has been chosen must not be chosen again: at step t it gets
probability 0, so that `order` is always a permutation.
Pointer: u_j = v . tanh(W1 e_j + W2 d_t), softmax over j.
"""
import torch
import torch.nn as nn


class SortPointer(nn.Module):
    def __init__(self, H=24):
        super().__init__()
        self.H = H
        self.embed = nn.Linear(1, H)
        self.encoder = nn.LSTM(H, H, batch_first=True)
        self.cell = nn.LSTMCell(H, H)
        self.W1 = nn.Linear(H, H, bias=False)
        self.W2 = nn.Linear(H, H, bias=False)
        self.v = nn.Linear(H, 1, bias=False)
        self.start = nn.Parameter(torch.randn(H) * 0.1)

    def forward(self, numbers):
        B, N, _ = numbers.shape
        x = self.embed(numbers)
        enc, (h, c) = self.encoder(x)
        h, c = h[0], c[0]
        keys = self.W1(enc)
        taken = torch.zeros(B, N, dtype=torch.bool, device=numbers.device)
        inp = self.start.expand(B, -1)
        log_p, order = [], []
        for _ in range(N):
            h, c = self.cell(inp, (h, c))
            u = self.v(torch.tanh(keys + self.W2(h).unsqueeze(1))).squeeze(-1)
            u.masked_fill(taken, float("-inf"))
            lp = u.log_softmax(dim=-1)
            pick = lp.argmax(dim=-1)
            taken = taken.scatter(1, pick.unsqueeze(1), True)
            inp = x.gather(1, pick.view(B, 1, 1).expand(-1, 1, self.H)).squeeze(1)
            log_p.append(lp)
            order.append(pick)
        return torch.stack(log_p, 1), torch.stack(order, 1)
