"""
abc_reel_decoder: continue a reel in ABC notation.

Encoder: biGRU over bars (at most MAX_BARS).  Decoder: GRU, one note per step.
At every step the decoder state is compared with each encoded bar, and the bars
that fit best are mixed into the context from which the note is drawn.

Shapes are batch first.  Short tunes are padded with empty bars at the end.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

MAX_BARS = 32
NOTES = list("CDEFGABcdefgab|:[]()'/,234") + ["z", "<eot>"]


class TuneEncoder(nn.Module):
    def __init__(self, bar_dim, hidden):
        super().__init__()
        self.rnn = nn.GRU(bar_dim, hidden // 2, bidirectional=True, batch_first=True)

    def forward(self, bars):
        out, _ = self.rnn(bars)
        return out


class AttnNoteDecoder(nn.Module):
    """One decoding step.

    note     (B,)           previous note
    state    (1, B, H)      decoder state
    encoded  (B, bars, H)   encoder output
    """

    def __init__(self, hidden, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(len(NOTES), hidden)
        self.drop = nn.Dropout(dropout)
        self.attn = nn.Linear(2 * hidden, MAX_BARS)
        self.combine = nn.Linear(2 * hidden, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, len(NOTES))

    def forward(self, note, state, encoded, n_bars):
        e = self.drop(self.embedding(note))
        energy = self.attn(torch.cat([e, state[0]], dim=1))[:, : encoded.size(1)]
        empty = torch.arange(encoded.size(1), device=note.device)[None] >= n_bars[:, None]
        weights = F.softmax(energy.masked_fill(empty, float("-inf")), dim=1)
        context = torch.bmm(weights.unsqueeze(1), encoded).squeeze(1)
        x = F.relu(self.combine(torch.cat([e, context], dim=1)))
        y, state = self.gru(x.unsqueeze(1), state)
        return F.log_softmax(self.out(y.squeeze(1)), dim=1), state, weights


@torch.no_grad()
def play(enc, dec, bars, n_bars, steps=16):
    encoded = enc(bars)
    state = encoded.mean(1).unsqueeze(0)
    note = torch.zeros(bars.size(0), dtype=torch.long)
    tune = []
    for _ in range(steps):
        logp, state, _ = dec(note, state, encoded, n_bars)
        note = logp.argmax(1)
        tune.append(note)
    return torch.stack(tune, 1)


if __name__ == "__main__":
    e, d = TuneEncoder(12, 32), AttnNoteDecoder(32).eval()
    t = play(e, d, torch.randn(2, 8, 12), torch.tensor([8, 5]))
    print(["".join(NOTES[i] for i in row) for row in t])
