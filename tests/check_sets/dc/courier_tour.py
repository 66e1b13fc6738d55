import torch
from torch import nn


class CourierTour(nn.Module):
    """Greedy tour over stops (B, N, 2) with a pointer; returns order (B, N) and log-probabilities (B, N)."""

    def __init__(self, hid=32, clip=10.0):
        super().__init__()
        self.clip = clip
        self.embed = nn.Linear(2, hid)
        self.enc = nn.LSTM(hid, hid, batch_first=True)
        self.dec = nn.LSTMCell(hid, hid)
        self.W_ref = nn.Linear(hid, hid, bias=False)
        self.W_q = nn.Linear(hid, hid)
        self.v = nn.Parameter(torch.randn(hid) / hid ** 0.5)
        self.first = nn.Parameter(torch.zeros(hid))

    def point(self, h, ref, visited):
        u = torch.tanh(ref + self.W_q(h).unsqueeze(1)) @ self.v
        u = self.clip * torch.tanh(u)
        return torch.log_softmax(u.masked_fill(visited, float("-inf")), dim=1)

    def forward(self, stops):
        B, N, _ = stops.shape
        e = self.embed(stops)
        mem, (h, c) = self.enc(e)
        h, c = h[0], c[0]
        ref = self.W_ref(mem)
        visited = torch.zeros(B, N, dtype=torch.bool, device=stops.device)
        x = self.first.expand(B, -1)
        order, logs = [], []
        for _ in range(N):
            h, c = self.dec(x, (h, c))
            logp = self.point(h, ref, visited)
            best, i = logp.max(1)
            order.append(i)
            logs.append(best)
            visited = visited.scatter(1, i[:, None], True)
            x = e[torch.arange(B, device=i.device), i]
        return torch.stack(order, 1), torch.stack(logs, 1)
