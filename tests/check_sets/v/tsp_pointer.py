import torch
import torch.nn as nn


class Pointer(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.W1 = nn.Linear(hidden, hidden, bias=False)
        self.W2 = nn.Linear(hidden, hidden, bias=False)
        self.vt = nn.Linear(hidden, 1, bias=False)

    def forward(self, decoder_state, encoder_outputs, visited):
        # (batch, cities, hidden) + (batch, 1, hidden)
        combined = self.W1(encoder_outputs) + self.W2(decoder_state).unsqueeze(1)
        u = self.vt(combined).squeeze(-1)
        u = u.masked_fill(visited, -1e9)
        return torch.log_softmax(u, dim=-1)


class PointerNet(nn.Module):
    """Sequence of 2-D cities -> log-probabilities of the tour and the tour itself."""

    def __init__(self, hidden=32):
        super().__init__()
        self.embed = nn.Linear(2, hidden)
        self.encoder = nn.LSTM(hidden, hidden, batch_first=True)
        self.decoder = nn.LSTMCell(hidden, hidden)
        self.start = nn.Parameter(torch.zeros(hidden))
        self.pointer = Pointer(hidden)
        for w in self.parameters():
            nn.init.uniform_(w, -0.6, 0.6)

    def forward(self, cities, teacher=None):
        batch, n, _ = cities.shape
        emb = self.embed(cities)
        enc, (h, c) = self.encoder(emb)
        h, c = h[0], c[0]
        visited = torch.zeros(batch, n, dtype=torch.bool, device=cities.device)
        inp = self.start.expand(batch, -1)
        rows = torch.arange(batch, device=cities.device)
        log_probs, tour = [], []
        for step in range(n):
            h, c = self.decoder(inp, (h, c))
            lp = self.pointer(h, enc, visited)
            choice = teacher[:, step] if teacher is not None else lp.argmax(-1)
            visited = visited.scatter(1, choice.unsqueeze(1), True)
            inp = emb[rows, choice]
            log_probs.append(lp)
            tour.append(choice)
        return torch.stack(log_probs, 1), torch.stack(tour, 1)


if __name__ == "__main__":
    torch.manual_seed(2)
    net = PointerNet()
    lp, tour = net(torch.rand(3, 7, 2))
    print(tour)
    print(lp[:, 0].exp())
