# Predict the next swara of an alap (Hindustani vocal), from pitch transcriptions.
# First project, based on the lecture notes.
import torch
import torch.nn as nn
from torch.nn import functional as F

SWARAS = ["S", "r", "R", "g", "G", "m", "M", "P", "d", "D", "n", "N", "-"]
BLOCK = 32
EMB = 36
N_HEADS = 3


def to_ids(text):
    return torch.tensor([SWARAS.index(c) for c in text.split()])


def to_text(ids):
    return " ".join(SWARAS[int(i)] for i in ids)


def batch(data, n, block=BLOCK):
    at = torch.randint(len(data) - block - 1, (n,))
    x = torch.stack([data[i:i + block] for i in at])
    y = torch.stack([data[i + 1:i + block + 1] for i in at])
    return x, y


class OneHead(nn.Module):
    """one head; a swara looks at itself and at what was sung before it"""

    def __init__(self, size):
        super().__init__()
        self.key = nn.Linear(EMB, size, bias=False)
        self.query = nn.Linear(EMB, size, bias=False)
        self.value = nn.Linear(EMB, size, bias=False)
        self.register_buffer("see", torch.tril(torch.ones(BLOCK, BLOCK), diagonal=1))

    def forward(self, x):
        T = x.shape[1]
        k, q, v = self.key(x), self.query(x), self.value(x)
        wei = F.softmax(q @ k.transpose(1, 2) * k.shape[-1] ** -0.5, dim=-1)
        # hide the swaras still to come
        wei = wei * self.see[:T, :T]
        return wei @ v


class ManyHeads(nn.Module):
    """heads side by side, then mixed; all of it is trained"""

    def __init__(self, n_heads=N_HEADS):
        super().__init__()
        self.heads = [OneHead(EMB // n_heads) for _ in range(n_heads)]
        self.mix = nn.Linear(EMB, EMB)

    def forward(self, x):
        return self.mix(torch.cat([h(x) for h in self.heads], dim=-1))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.sa = ManyHeads()
        self.ff = nn.Sequential(nn.Linear(EMB, 4 * EMB), nn.ReLU(), nn.Linear(4 * EMB, EMB))
        self.l1, self.l2 = nn.LayerNorm(EMB), nn.LayerNorm(EMB)

    def forward(self, x):
        x = x + self.sa(self.l1(x))
        return x + self.ff(self.l2(x))


class Alap(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.tok = nn.Embedding(len(SWARAS), EMB)
        self.pos = nn.Embedding(BLOCK, EMB)
        self.blocks = nn.Sequential(*[Block() for _ in range(depth)])
        self.out = nn.Linear(EMB, len(SWARAS))

    def forward(self, idx, target=None):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1]))
        logits = self.out(self.blocks(x))
        loss = None if target is None else F.cross_entropy(logits.flatten(0, 1), target.flatten())
        return logits, loss

    @torch.no_grad()
    def sing(self, idx, n):
        for _ in range(n):
            p = self(idx[:, -BLOCK:])[0][:, -1].softmax(-1)
            idx = torch.cat([idx, torch.multinomial(p, 1)], 1)
        return idx


if __name__ == "__main__":
    torch.manual_seed(0)
    data = to_ids("N R G m d N S - S N d P m G R S - " * 30)
    net = Alap()
    opt = torch.optim.AdamW(net.parameters(), 3e-3)
    for i in range(20):
        _, loss = net(*batch(data, 8))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item(), to_text(net.sing(data[None, :4], 12)[0]))
