# %% [markdown]
# # Lab 7: Attention
# In this lab we build multi-head attention out of single heads and train it on the toy
# sequence-reversal task from the lecture.

# %%
import math

import torch
import torch.nn as nn

torch.manual_seed(0)

# %% [markdown]
# ## 7.1 One head
# Fill in the forward pass. `x` has shape (batch, seq, d_model).

# %%
class Head(nn.Module):
    def __init__(self, d_model, d_head):
        super().__init__()
        self.Wq = nn.Linear(d_model, d_head, bias=False)
        self.Wk = nn.Linear(d_model, d_head, bias=False)
        self.Wv = nn.Linear(d_model, d_head, bias=False)
        self.d_head = d_head

    def forward(self, x):
        Q = self.Wq(x)
        K = self.Wk(x)
        V = self.Wv(x)
        scores = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(self.d_head)
        A = torch.softmax(scores, dim=-1)
        return torch.bmm(A, V)


# %% [markdown]
# ## 7.2 Many heads
# Run every head on the same input, concatenate along the last axis and mix with a linear layer.

# %%
class MultiHead(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        assert d_model % n_heads == 0
        self.heads = [Head(d_model, d_model // n_heads) for _ in range(n_heads)]
        self.Wo = nn.Linear(d_model, d_model)

    def forward(self, x):
        outs = [head(x) for head in self.heads]
        return self.Wo(torch.cat(outs, dim=-1))


# %% [markdown]
# ## 7.3 The encoder layer

# %%
class LabEncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.mha = MultiHead(d_model, n_heads)
        self.norm1 = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.mha(x))
        return self.norm2(x + self.ff(x))


# %%
def make_reverse_batch(bs, length, vocab):
    seq = torch.randint(0, vocab, (bs, length))
    return seq, seq.flip(1)


def train_step(model, emb, readout, optimizer, bs=32, length=8, vocab=10):
    x, y = make_reverse_batch(bs, length, vocab)
    logits = readout(model(emb(x)))
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
