"""Piano continuation with relative attention (Music Transformer, Huang et al. 2018)."""
import math

import torch
from torch import nn
from torch.nn import functional as F


class RelativeGlobalAttention(nn.Module):
    """Causal self-attention with learned relative positions.

    logits[i, j] = (q_i . k_j + q_i . E[j - i]) / sqrt(d),  j <= i

    `Er` holds max_len embeddings per head, ordered from the farthest distance to the
    nearest: the last row is distance 0, the row before it distance 1, and so on. The
    term q_i . E[j - i] is made from Q Er^T with the memory saving "skew" of the
    paper (section 3.4.1), no [L, L, d] tensor is built.
    """

    def __init__(self, d_model, num_heads, max_len=1024, dropout=0.1):
        super().__init__()
        d_head, rest = divmod(d_model, num_heads)
        if rest:
            raise ValueError("incompatible `d_model` and `num_heads`")
        self.max_len = max_len
        self.num_heads = num_heads
        self.d_head = d_head
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.Er = nn.Parameter(torch.randn(num_heads, max_len, d_head) * 0.1)
        self.register_buffer("future", torch.triu(torch.ones(max_len, max_len, dtype=torch.bool), 1))

    def skew(self, qer):
        """[B, H, L, L]: column c of row i belongs to distance L-1-c; afterwards column j
        of row i belongs to distance i-j (entries with j > i are leftovers, masked later)."""
        B, H, L, _ = qer.shape
        padded = F.pad(qer, (0, 1))
        return padded.reshape(B, H, L + 1, L)[:, :, 1:, :]

    def forward(self, x):
        B, L, _ = x.shape
        if L > self.max_len:
            raise ValueError("sequence length exceeds model capacity")
        q = self.query(x).reshape(B, L, self.num_heads, -1).transpose(1, 2)
        k = self.key(x).reshape(B, L, self.num_heads, -1).permute(0, 2, 3, 1)
        v = self.value(x).reshape(B, L, self.num_heads, -1).transpose(1, 2)

        qer = torch.matmul(q, self.Er[:, self.max_len - L:].transpose(1, 2))
        logits = (torch.matmul(q, k) + self.skew(qer)) / math.sqrt(self.d_head)
        logits = logits.masked_fill(self.future[:L, :L], float("-inf"))
        weights = self.dropout(F.softmax(logits, dim=-1))
        y = torch.matmul(weights, v).transpose(1, 2).reshape(B, L, -1)
        return self.out(y)


class Layer(nn.Module):
    def __init__(self, d, heads, max_len):
        super().__init__()
        self.att = RelativeGlobalAttention(d, heads, max_len)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        x = self.n1(x + self.att(x))
        return self.n2(x + self.ff(x))


class PianoModel(nn.Module):
    """Events: 128 note-on, 128 note-off, 100 time shifts of 10 ms, 32 velocities."""
    n_events = 128 + 128 + 100 + 32

    def __init__(self, d=128, heads=4, layers=4, max_len=1024):
        super().__init__()
        self.emb = nn.Embedding(self.n_events, d)
        self.layers = nn.ModuleList(Layer(d, heads, max_len) for _ in range(layers))
        self.head = nn.Linear(d, self.n_events)

    def forward(self, events):
        x = self.emb(events) * math.sqrt(self.emb.embedding_dim)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def notes_to_events(notes):
    """notes: list of (start_s, end_s, pitch, velocity) -> list of event ids."""
    marks = []
    for a, b, p, vel in notes:
        marks.append((a, 1, p, vel))
        marks.append((b, 0, p, 0))
    marks.sort()
    now, vel_now, ev = 0.0, None, []
    for t, on, p, vel in marks:
        ticks = int(round((t - now) * 100))
        while ticks > 0:
            step = min(ticks, 100)
            ev.append(256 + step - 1)
            ticks -= step
        now = t
        if on:
            if vel // 4 != vel_now:
                vel_now = vel // 4
                ev.append(356 + vel_now)
            ev.append(p)
        else:
            ev.append(128 + p)
    return ev


@torch.no_grad()
def continue_piece(model, events, steps, top_k=20):
    model.eval()
    ids = torch.tensor([events])
    for _ in range(steps):
        logits = model(ids[:, -1024:])[0, -1]
        v, i = logits.topk(top_k)
        ids = torch.cat([ids, i[torch.multinomial(v.softmax(0), 1)].view(1, 1)], 1)
    return ids[0].tolist()
