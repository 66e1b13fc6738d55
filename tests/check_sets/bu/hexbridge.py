"""hexbridge -- a small network for the game of Hex (two players, one bridge).

std::vector<Head> heads;   // that's all the design there is
"""
import torch
from torch import nn


def hex_neighbours(n):
    """Adjacency of an n x n Hex board, (n*n, n*n) bool, with the cell itself."""
    a = torch.eye(n * n, dtype=torch.bool)
    for r in range(n):
        for c in range(n):
            for dr, dc in ((0, 1), (0, -1), (1, 0), (-1, 0), (1, -1), (-1, 1)):
                rr, cc = r + dr, c + dc
                if 0 <= rr < n and 0 <= cc < n:
                    a[r * n + c, rr * n + cc] = True
    return a


class Head(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.query = nn.Linear(n_in, n_out, bias=False)
        self.key = nn.Linear(n_in, n_out, bias=False)
        self.value = nn.Linear(n_in, n_out, bias=False)
        self.n_out = n_out

    def forward(self, x, near):
        q, k, v = self.query(x), self.key(x), self.value(x)
        s = torch.bmm(q, k.transpose(1, 2)) / self.n_out ** 0.5
        s = s + near
        return torch.bmm(torch.softmax(s, dim=2), v)


class BridgeAttention(nn.Module):
    """x: (B, cells, dim). Neighbouring cells get a learned bonus, nobody is masked."""

    def __init__(self, dim=16, n_heads=4, board=5):
        super().__init__()
        assert dim % n_heads == 0
        self.heads = [Head(dim, dim // n_heads) for _ in range(n_heads)]
        self.join = nn.Linear(dim, dim)
        self.bonus = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("adj", hex_neighbours(board).float())

    def forward(self, x):
        near = self.bonus * self.adj
        return self.join(torch.cat([h(x, near) for h in self.heads], dim=2))


class HexNet(nn.Module):
    def __init__(self, board=5, dim=16):
        super().__init__()
        self.board = board
        self.stone = nn.Embedding(3, dim)
        self.cell = nn.Parameter(torch.randn(board * board, dim) * 0.02)
        self.att = BridgeAttention(dim, board=board)
        self.move = nn.Linear(dim, 1)

    def forward(self, stones):
        h = self.stone(stones.flatten(1)) + self.cell
        h = torch.relu(h + self.att(h))
        logits = self.move(h).squeeze(-1)
        return logits.masked_fill(stones.flatten(1) != 0, float("-inf"))


def save(net, path):
    torch.save({"board": net.board, "net": net.state_dict()}, path)


def load(path):
    blob = torch.load(path)
    net = HexNet(blob["board"])
    net.load_state_dict(blob["net"])
    return net


if __name__ == "__main__":
    print(HexNet()(torch.zeros(1, 5, 5, dtype=torch.long)).shape)
