"""seq2seq: photo strip of tatted lace -> stitch notation (ds, p, ch, r, join)

GRU decoder with Bahdanau attention. `pad` is True where the strip was padded.
"""
import torch
import torch.nn as nn

STITCHES = ['<s>', '</s>', 'ds', 'p', '-', '+', 'ch', 'r', 'cl', 'rw', 'join', 'split']
stoi = {s: i for i, s in enumerate(STITCHES)}


def notation(ids):
    words = []
    for i in ids:
        if i == stoi['</s>']:
            break
        if i != stoi['<s>']:
            words.append(STITCHES[i])
    return ' '.join(words)


class StripEncoder(nn.Module):
    def __init__(self, pixels=32, size=40):
        super().__init__()
        self.rnn = nn.GRU(pixels, size, batch_first=True, bidirectional=True)

    def forward(self, strip):
        memory, h = self.rnn(strip)
        return memory, torch.cat([h[0], h[1]], -1)


class ThreadAttention(nn.Module):
    """score(s, h_j) = w . tanh(A s + B h_j)  (Bahdanau et al. 2015, appendix A.1.2)

    B h_j does not change over the decoding, so callers may pass it in as `prepared`.
    Returns (context [N, mem], alpha [N, L]).
    """

    def __init__(self, state, mem, inner=24):
        super().__init__()
        self.A = nn.Linear(state, inner, bias=False)
        self.B = nn.Linear(mem, inner)
        self.w = nn.Linear(inner, 1, bias=False)

    def prepare(self, memory):
        return self.B(memory)

    def forward(self, s, memory, pad=None, prepared=None):
        if prepared is None:
            prepared = self.prepare(memory)
        e = self.w(torch.tanh(self.A(s).unsqueeze(1) + prepared)).squeeze(2)
        if pad is not None:
            e = e.masked_fill(pad, -float('inf'))
        alpha = torch.softmax(e, 1)
        context = torch.bmm(alpha.unsqueeze(1), memory).squeeze(1)
        return context, alpha


class StitchDecoder(nn.Module):
    def __init__(self, mem=80, state=48, emb=16):
        super().__init__()
        self.emb = nn.Embedding(len(STITCHES), emb)
        self.init = nn.Linear(mem, state)
        self.cell = nn.GRUCell(emb + mem, state)
        self.att = ThreadAttention(state, mem)
        self.readout = nn.Linear(state + mem + emb, len(STITCHES))

    def step(self, token, s, memory, pad, prepared):
        x = self.emb(token)
        context, alpha = self.att(s, memory, pad, prepared)
        s = self.cell(torch.cat([x, context], -1), s)
        return self.readout(torch.cat([s, context, x], -1)), s, alpha

    def forward(self, memory, final, pad, targets):
        s = torch.tanh(self.init(final))
        prepared = self.att.prepare(memory)
        out = []
        for t in range(targets.size(1)):
            logits, s, _ = self.step(targets[:, t], s, memory, pad, prepared)
            out.append(logits)
        return torch.stack(out, 1)

    @torch.no_grad()
    def greedy(self, memory, final, pad, limit=60):
        s = torch.tanh(self.init(final))
        prepared = self.att.prepare(memory)
        token = memory.new_full((memory.size(0),), stoi['<s>'], dtype=torch.long)
        seq = []
        for _ in range(limit):
            logits, s, _ = self.step(token, s, memory, pad, prepared)
            token = logits.argmax(-1)
            seq.append(token)
            if (token == stoi['</s>']).all():
                break
        return torch.stack(seq, 1)


if __name__ == '__main__':
    enc, dec = StripEncoder(), StitchDecoder()
    strip = torch.randn(2, 15, 32)
    pad = torch.zeros(2, 15, dtype=torch.bool)
    pad[1, 9:] = True
    m, f = enc(strip)
    for row in dec.greedy(m, f, pad, limit=8).tolist():
        print(notation(row))
