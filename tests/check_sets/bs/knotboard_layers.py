'''Knot diagrams -> unknotting moves.

The crossings of a diagram are the tokens.  How far two crossings are apart along the strand gives a
bias on the attention logits that is common to all layers ("reach"); on top of it each layer has an
opinion of its own about over/under/same pairs ("parity").  logits = q.k/sqrt(d) + reach + parity.
'''
import torch
from torch import nn
from torch.nn import functional as fn

OVER, UNDER, PAD = 1, 0, -1
BIG = 24


def strand_distance(gauss, n):
    '''gauss: [2n] crossing ids met while walking along the strand once.'''
    where = torch.full((n, 2), -1, dtype=torch.long)
    for step, c in enumerate(gauss.tolist()):
        where[c, 0 if where[c, 0] < 0 else 1] = step
    gap = (where[:, None, :, None] - where[None, :, None, :]).abs()
    gap = torch.minimum(gap, 2 * n - gap)
    return gap.flatten(2).amin(-1)                       # [n, n]


class StrandAttention(nn.Module):
    '''x [B,N,D], signs [B,N] in {0,1}, reach [B,H,N,N] -> [B,N,D]'''

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.parity = nn.Parameter(torch.randn(heads, 3) * 0.5)
        self.merge = nn.Linear(dim, dim)

    def forward(self, x, signs, reach):
        B, N, D = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, -1).transpose(1, 3).unbind(2)
        pair = signs[:, :, None] + signs[:, None, :]                       # 0, 1 or 2
        reach += self.parity[:, pair].transpose(0, 1)
        logits = q @ k.transpose(2, 3) * (D // self.heads) ** -0.5 + reach
        y = fn.softmax(logits, -1) @ v
        return self.merge(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.att = StrandAttention(dim, heads)
        self.a, self.b = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 3 * dim), nn.Mish(), nn.Linear(3 * dim, dim))

    def forward(self, x, signs, reach):
        x = x + self.att(self.a(x), signs, reach)
        return x + self.ff(self.b(x))


class Unknotter(nn.Module):
    MOVES = ('R1', 'R2', 'R3', 'flip', 'stop')

    def __init__(self, dim=32, heads=4, depth=3):
        super().__init__()
        self.heads = heads
        self.sign = nn.Embedding(2, dim)
        self.writhe = nn.Linear(1, dim)
        self.reach = nn.Embedding(BIG, heads)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.policy = nn.Linear(dim, len(self.MOVES))

    def forward(self, gauss, signs, writhe):
        '''gauss [B, 2N], signs [B, N], writhe [B, N] -> logits [B, N, moves]'''
        N = signs.size(1)
        dist = torch.stack([strand_distance(g, N) for g in gauss]).clamp(max=BIG - 1)
        reach = self.reach(dist).permute(0, 3, 1, 2)
        x = self.sign(signs) + self.writhe(writhe[..., None].float())
        for layer in self.layers:
            x = layer(x, signs, reach)
        return self.policy(x)


TREFOIL = [0, 1, 2, 0, 1, 2]
FIGURE_EIGHT = [0, 1, 2, 0, 3, 2, 1, 3]

if __name__ == '__main__':
    torch.manual_seed(31)
    net = Unknotter()
    g = torch.tensor([FIGURE_EIGHT, FIGURE_EIGHT[::-1]])
    s = torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]])
    print(net(g, s, torch.tensor([[1, 1, -1, -1], [1, -1, 1, -1]])).argmax(-1))
