import torch
import torch.nn as nn
import torch.nn.functional as F


class ReadingDecoder(nn.Module):
    """One step of an LSTM decoder with attention over the encoder memory.

    At each step every memory slot gets a weight by how well it fits the current
    state; the weighted sum of the memory is the context.

    tok    : (B,)            previous token
    h, c   : (B, H)          LSTM state
    memory : (B, M, H)       encoder states, always padded to `slots`
    """

    def __init__(self, vocab, H, slots, emb=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.w1 = nn.Linear(emb + H, H)
        self.w2 = nn.Linear(H, slots, bias=False)
        self.cell = nn.LSTMCell(emb + H, H)
        self.out = nn.Linear(2 * H, vocab)

    def forward(self, tok, h, c, memory):
        e = self.emb(tok)
        energy = self.w2(torch.tanh(self.w1(torch.cat([e, h], -1))))
        alpha = F.softmax(energy, dim=1)
        context = torch.bmm(alpha.unsqueeze(1), memory).squeeze(1)
        h, c = self.cell(torch.cat([e, context], -1), (h, c))
        logp = F.log_softmax(self.out(torch.cat([h, context], -1)), dim=-1)
        return logp, h, c, alpha


def run(dec, tgt, h, c, memory):
    out = []
    for t in range(tgt.size(1)):
        logp, h, c, _ = dec(tgt[:, t], h, c, memory)
        out.append(logp)
    return torch.stack(out, 1)
