import torch
from torch import nn


class StopPicker(nn.Module):
    """Pointer network that orders delivery stops.

    stops (B, N, 2) -> (tour (B, N) long, logp (B, N, N)).
    At step t, logp[:, t] is the log-distribution over the stops not yet visited (-inf for the
    visited ones) and the most likely stop is taken. A glimpse over the open stops comes first.
    """

    def __init__(self, hid=32):
        super().__init__()
        self.embed = nn.Linear(2, hid)
        self.enc = nn.GRU(hid, hid, batch_first=True, bidirectional=True)
        self.mem = nn.Linear(2 * hid, hid)
        self.cell = nn.LSTMCell(hid, hid)
        self.first = nn.Parameter(torch.zeros(hid))
        self.g_q, self.g_k = nn.Linear(hid, hid), nn.Linear(hid, hid, bias=False)
        self.p_q, self.p_k = nn.Linear(hid, hid), nn.Linear(hid, hid, bias=False)
        self.g_v, self.p_v = nn.Linear(hid, 1, bias=False), nn.Linear(hid, 1, bias=False)

    @staticmethod
    def _energy(q, k, v, seen):
        e = v(torch.tanh(q.unsqueeze(1) + k)).squeeze(-1)
        return e.masked_fill(seen, float("-inf"))

    def forward(self, stops):
        b, n, _ = stops.shape
        x = self.embed(stops)
        memory, _ = self.enc(x)
        memory = self.mem(memory)
        gk, pk = self.g_k(memory), self.p_k(memory)
        h = memory.mean(1)
        c = torch.zeros_like(h)
        inp = self.first.expand(b, -1)
        seen = torch.zeros(b, n, dtype=torch.bool, device=stops.device)
        tour, logp = [], []
        for _ in range(n):
            h, c = self.cell(inp, (h, c))
            a = self._energy(self.g_q(h), gk, self.g_v, seen).softmax(-1)
            glimpse = torch.bmm(a.unsqueeze(1), memory).squeeze(1)
            lp = self._energy(self.p_q(glimpse), pk, self.p_v, seen).log_softmax(-1)
            pick = lp.argmax(-1)
            seen = seen.scatter(1, pick[:, None], True)
            inp = x[torch.arange(b, device=x.device), pick]
            tour.append(pick)
            logp.append(lp)
        return torch.stack(tour, 1), torch.stack(logp, 1)
