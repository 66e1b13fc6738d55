# -*- coding: utf-8 -*-
# Exported from seq2seq_additive_attention.ipynb

# %% [markdown]
# # Translating dates: "3 march 2019" -> "2019-03-03"
# We use a GRU encoder, a GRU decoder and Bahdanau (additive) attention between them.

# %%
import random

import torch
import torch.nn as nn

MONTHS = ["january", "february", "march", "april", "may", "june", "july",
          "august", "september", "october", "november", "december"]
SRC = sorted(set("".join(MONTHS) + "0123456789 "))
TGT = list("0123456789-") + ["^"]


def make_pair(rng):
    y, m, d = rng.randint(1950, 2049), rng.randint(1, 12), rng.randint(1, 28)
    return f"{d} {MONTHS[m - 1]} {y}", f"{y}-{m:02d}-{d:02d}"


def make_batch(n, seed=0):
    rng = random.Random(seed)
    pairs = [make_pair(rng) for _ in range(n)]
    L = max(len(s) for s, _ in pairs)
    x = torch.tensor([[SRC.index(c) for c in s.ljust(L)] for s, _ in pairs])
    y = torch.tensor([[TGT.index(c) for c in t] for _, t in pairs])
    return x, y


# %% [markdown]
# ## Attention
# The score of encoder output h_j for decoder state s is
# $e_j = v^T \tanh(W [s; h_j])$, and the weights are a softmax over j.

# %%
class Attn(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.attn = nn.Linear(2 * hidden, hidden)
        self.v = nn.Parameter(torch.rand(hidden))

    def forward(self, hidden, encoder_outputs):
        # hidden: (B, H)   encoder_outputs: (B, S, H)
        S = encoder_outputs.size(1)
        h = hidden.unsqueeze(1).expand(-1, S, -1)
        energy = self.attn(torch.cat((h, encoder_outputs), 2))
        energy = energy @ self.v
        return torch.softmax(energy, dim=1)


# %%
class Encoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.emb = nn.Embedding(len(SRC), hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)

    def forward(self, x):
        return self.gru(self.emb(x))


class Decoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.emb = nn.Embedding(len(TGT), hidden)
        self.attn = Attn(hidden)
        self.gru = nn.GRUCell(2 * hidden, hidden)
        self.out = nn.Linear(2 * hidden, len(TGT))

    def forward(self, y_prev, s, enc):
        w = self.attn(s, enc)
        c = (w.unsqueeze(1) @ enc).squeeze(1)
        s = self.gru(torch.cat((self.emb(y_prev), c), 1), s)
        return self.out(torch.cat((s, c), 1)), s, w


# %%
def loss_of(enc, dec, x, y):
    mem, s = enc(x)
    s = s[0]
    prev = torch.full((x.size(0),), TGT.index("^"))
    total = 0.0
    for t in range(y.size(1)):
        logits, s, _ = dec(prev, s, mem)
        total = total + nn.functional.cross_entropy(logits, y[:, t])
        prev = y[:, t]
    return total / y.size(1)


def train(steps=200, hidden=64):
    enc, dec = Encoder(hidden), Decoder(hidden)
    opt = torch.optim.Adam(list(enc.parameters()) + list(dec.parameters()), 2e-3)
    for i in range(steps):
        l = loss_of(enc, dec, *make_batch(64, i))
        opt.zero_grad()
        l.backward()
        opt.step()
    return enc, dec
