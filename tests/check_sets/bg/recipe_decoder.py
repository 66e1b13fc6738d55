"""Recipe step generator: ingredients in, cooking steps out.

LSTM decoder with global attention after Luong et al. 2015 ("general" score):

    a_t  = softmax(h_t^T W_a h_s)
    c_t  = sum_s a_t(s) h_s
    h~_t = tanh(W_c [c_t ; h_t])

h~_t goes to the output layer and, with input feeding, into the next step.
"""
import torch
from torch import nn

PAD, BOS, EOS = 0, 1, 2


class IngredientEncoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.rnn = nn.LSTM(emb, hid // 2, batch_first=True, bidirectional=True)

    def forward(self, ids):
        y, _ = self.rnn(self.emb(ids))
        return y, ids == PAD


class LuongStep(nn.Module):
    """h: [B, hid]; memory: [B, S, hid]; pad: [B, S] True = padding (never all of a row).

    Returns the attentional vector h~ [B, hid] and a_t [B, S].
    """

    def __init__(self, hid):
        super().__init__()
        self.W_a = nn.Linear(hid, hid, bias=False)
        self.W_c = nn.Linear(2 * hid, hid, bias=False)

    def forward(self, h, memory, pad=None):
        score = torch.bmm(self.W_a(memory), h.unsqueeze(2)).squeeze(2)
        if pad is not None:
            score = score.masked_fill(pad, float("-inf"))
        a = torch.softmax(score, dim=1)
        c = torch.bmm(a.unsqueeze(1), memory).squeeze(1)
        h_tilde = self.W_c(torch.cat([c, h], dim=1))
        return h_tilde, a


class StepDecoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.cell = nn.LSTMCell(emb + hid, hid)
        self.att = LuongStep(hid)
        self.out = nn.Linear(hid, vocab)
        self.hid = hid

    def forward(self, memory, pad, steps):
        b, t = steps.shape
        h = memory.new_zeros(b, self.hid)
        c, feed = torch.zeros_like(h), torch.zeros_like(h)
        logits = []
        for i in range(t):
            h, c = self.cell(torch.cat([self.emb(steps[:, i]), feed], 1), (h, c))
            feed, _ = self.att(h, memory, pad)
            logits.append(self.out(feed))
        return torch.stack(logits, 1)
