import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Encoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.lstm = nn.LSTM(emb, hid, batch_first=True)

    def forward(self, src, src_len):
        packed = pack_padded_sequence(self.emb(src), src_len.cpu(), batch_first=True, enforce_sorted=False)
        mem, (h, c) = self.lstm(packed)
        mem, _ = pad_packed_sequence(mem, batch_first=True, total_length=src.size(1))
        return mem, (h, c)


class LuongDecoderStep(nn.Module):
    """Luong "general" attention with input feeding.

    (y, feed, h, c, memory, src_len) -> (logits, feed, h, c, alpha); src_len >= 1
    """

    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.cell = nn.LSTMCell(emb + hid, hid)
        self.Wa = nn.Linear(hid, hid, bias=False)
        self.Wc = nn.Linear(2 * hid, hid, bias=False)
        self.out = nn.Linear(hid, vocab)

    def forward(self, y, feed, h, c, memory, src_len):
        h, c = self.cell(torch.cat((self.emb(y), feed), 1), (h, c))
        score = torch.einsum("bh,bsh->bs", h, self.Wa(memory))
        steps = torch.arange(memory.size(1), device=memory.device)
        score = score.masked_fill(steps >= src_len.unsqueeze(1), -torch.inf)
        alpha = torch.softmax(score, -1)
        ctx = torch.einsum("bs,bsh->bh", alpha, memory)
        feed = torch.tanh(self.Wc(torch.cat((ctx, h), 1)))
        return self.out(feed), feed, h, c, alpha


def teacher_force(enc, dec, src, src_len, tgt_in):
    memory, (h, c) = enc(src, src_len)
    h, c = h[-1], c[-1]
    feed = torch.zeros_like(h)
    logits = []
    for y in tgt_in.unbind(1):
        o, feed, h, c, _ = dec(y, feed, h, c, memory, src_len.to(memory.device))
        logits.append(o)
    return torch.stack(logits, 1)
