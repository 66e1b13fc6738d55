'''
haiku_gpt.py  --  the model of my weekend project, written down in one class
blog: "Teaching a very small transformer to write haiku" (part 2 of 3)

Nothing clever: decoder-only, sinusoidal positions, pre-norm, tied output.
'''
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class HaikuFormer(nn.Module):
    '''
    Decoder-only language model as in "Attention is all you need":

      attention   softmax(q k^T / sqrt(d_head)) v, causal
      positions   PE[pos, 2i] = sin(pos / 10000^(2i/d)), PE[pos, 2i+1] = cos(same)
      dropout     while training only
    '''

    def __init__(self, vocab, d=96, heads=6, depth=3, max_len=128, p=0.1):
        super().__init__()
        self.d, self.heads, self.depth, self.p = d, heads, depth, p
        self.emb = nn.Embedding(vocab, d)
        nn.init.normal_(self.emb.weight, std=d ** -0.5)
        self.qkv = nn.ModuleList([nn.Linear(d, 3 * d) for _ in range(depth)])
        self.mix = nn.ModuleList([nn.Linear(d, d) for _ in range(depth)])
        self.up = nn.ModuleList([nn.Linear(d, 4 * d) for _ in range(depth)])
        self.down = nn.ModuleList([nn.Linear(4 * d, d) for _ in range(depth)])
        self.n1 = nn.ModuleList([nn.LayerNorm(d) for _ in range(depth)])
        self.n2 = nn.ModuleList([nn.LayerNorm(d) for _ in range(depth)])
        self.nf = nn.LayerNorm(d)
        self.register_buffer('pe', self.positions(max_len, d))

    @staticmethod
    def positions(n, d):
        pos = torch.arange(n).float().unsqueeze(1)
        i = torch.arange(0, d, 2).float()
        rate = torch.exp(-math.log(10000.0) * 2 * i / d)
        pe = torch.zeros(n, d)
        pe[:, 0::2] = torch.sin(pos * rate)
        pe[:, 1::2] = torch.cos(pos * rate)
        return pe

    def attend(self, x, l):
        B, T, d = x.shape
        # (B, T, 3d) -> three times (B, heads, T, d_head)
        q, k, v = self.qkv[l](x).split(d, dim=2)
        q = q.view(B, T, self.heads, d // self.heads).transpose(1, 2)
        k = k.view(B, T, self.heads, d // self.heads).transpose(1, 2)
        v = v.view(B, T, self.heads, d // self.heads).transpose(1, 2)

        scores = (q @ k.transpose(2, 3)) / math.sqrt(k.shape[1])
        mask = torch.tril(torch.ones(T, T, device=x.device)).bool()
        scores = scores.masked_fill(~mask, float('-inf'))
        att = F.dropout(F.softmax(scores, dim=3), self.p)
        y = att @ v
        return self.mix[l](y.transpose(1, 2).contiguous().view(B, T, d))

    def forward(self, idx):
        x = self.emb(idx) * math.sqrt(self.d) + self.pe[:idx.shape[1]]
        for l in range(self.depth):
            x = x + self.attend(self.n1[l](x), l)
            h = self.down[l](F.gelu(self.up[l](self.n2[l](x))))
            x = x + F.dropout(h, self.p, self.training)
        return self.nf(x) @ self.emb.weight.t()

    @torch.no_grad()
    def write(self, idx, n, temperature=0.8):
        self.eval()
        for _ in range(n):
            logits = self(idx[:, -self.pe.shape[0]:])[:, -1] / temperature
            idx = torch.cat([idx, torch.multinomial(F.softmax(logits, -1), 1)], 1)
        return idx


HAIKU = """old pond / a frog leaps in / sound of water
the light of a candle / is transferred to another / spring twilight
over the wintry / forest, winds howl in rage / with no leaves to blow
"""


def make_data(text, block=48):
    chars = sorted(set(text))
    stoi = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([stoi[c] for c in text])

    def batch(n, gen=None):
        at = torch.randint(0, len(data) - block - 1, (n,), generator=gen)
        x = torch.stack([data[a:a + block] for a in at])
        y = torch.stack([data[a + 1:a + block + 1] for a in at])
        return x, y
    return chars, stoi, batch


def fit(steps=300, lr=3e-4):
    chars, stoi, batch = make_data(HAIKU)
    net = HaikuFormer(len(chars))
    opt = torch.optim.AdamW(net.parameters(), lr=lr)
    for s in range(steps):
        net.train()
        x, y = batch(16)
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if s % 50 == 0:
            print(s, loss.item(), file=sys.stderr)
    return net, chars, stoi


if __name__ == '__main__':
    net, chars, stoi = fit()
    out = net.write(torch.tensor([[stoi['o']]]), 80)
    print(''.join(chars[i] for i in out[0].tolist()))
