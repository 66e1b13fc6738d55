"""Decoder of the helpdesk chatbot: one-layer LSTM with Luong 'general' attention."""
import torch
import torch.nn as nn


class LuongDecoder(nn.Module):
    """
    Teacher-forced decoder with input feeding.

    tokens  : (B, T) long, already shifted right
    memory  : (B, S, enc) encoder outputs
    lengths : (B,) number of real encoder steps, >= 1
    returns   logits (B, T, vocab), alignments (B, T, S)

    score(h, m) = h^T W m  (unscaled, as in the paper)
    attentional vector = tanh(Wc [context; h])
    """

    def __init__(self, vocab=50, emb=16, hid=24, enc=20):
        super().__init__()
        self.hid = hid
        self.embed = nn.Embedding(vocab, emb)
        self.cell = nn.LSTMCell(emb + hid, hid)
        self.general = nn.Linear(enc, hid, bias=False)
        self.combine = nn.Linear(enc + hid, hid)
        self.out = nn.Linear(hid, vocab)

    def attend(self, h, keys, memory, real):
        # h (B, hid), keys (B, S, hid)
        e = torch.bmm(keys, h.unsqueeze(2)).squeeze(2)
        e = e.masked_fill(real.logical_not(), -float("inf"))
        a = torch.softmax(e, dim=1)
        return torch.bmm(a.unsqueeze(1), memory).squeeze(1), a

    def forward(self, tokens, memory, lengths):
        B, T = tokens.shape
        S = memory.size(1)
        real = torch.arange(S, device=memory.device)[None] < lengths[:, None]
        keys = self.general(memory)  # once per sentence
        h = memory.new_zeros(B, self.hid)
        c = torch.zeros_like(h)
        feed = torch.zeros_like(h)
        ys, aligns = [], []
        for t in range(T):
            step = torch.cat([self.embed(tokens[:, t]), feed], dim=1)
            h, c = self.cell(step, (h, c))
            ctx, a = self.attend(h, keys, memory, real)
            feed = torch.tanh(self.combine(torch.cat([ctx, h], dim=1)))
            ys.append(self.out(feed))
            aligns.append(a)
        return torch.stack(ys, 1), torch.stack(aligns, 1)
