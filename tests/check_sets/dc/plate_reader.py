# Number plates: CNN columns -> BiGRU -> characters
import torch
from torch import nn


class PlateDecoder(nn.Module):
    """At every character the decoder compares its state with the image columns and reads a
    weighted sum of them.

    columns (B, T, E), T <= max_cols; prev (B,) last character; state (B, Hd)
    returns logits (B, n_chars), new state, weights (B, T)
    """

    def __init__(self, n_chars, E=32, Hd=32, max_cols=40):
        super().__init__()
        self.chars = nn.Embedding(n_chars, Hd)
        self.look = nn.Linear(2 * Hd, max_cols)
        self.cell = nn.GRUCell(Hd + E, Hd)
        self.out = nn.Linear(Hd + E, n_chars)

    def forward(self, columns, prev, state):
        T = columns.size(1)
        c = self.chars(prev)
        e = self.look(torch.cat([c, state], dim=1))[:, :T]
        w = torch.softmax(e, dim=1)
        ctx = torch.bmm(w.unsqueeze(1), columns).squeeze(1)
        state = self.cell(torch.cat([c, ctx], 1), state)
        return self.out(torch.cat([state, ctx], 1)), state, w


def read_plate(dec, columns, start=0, steps=8):
    state = columns.mean(1)
    ch = torch.full((columns.size(0),), start, dtype=torch.long)
    out = []
    for _ in range(steps):
        logits, state, _ = dec(columns, ch, state)
        ch = logits.argmax(-1)
        out.append(ch)
    return torch.stack(out, 1)
