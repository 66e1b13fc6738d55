import torch
import torch.nn as nn


class Poet(nn.Module):
    """LSTM decoder with Luong 'general' attention, all steps at once.

    a_t(s)  = softmax over source positions s of  h_t^T W_a m_s
    h~_t    = tanh(W_c [c_t ; h_t])
    logits  = W_o h~_t

    memory (B, S, hid), verse (B, T) -> logits (B, T, vocab), a (B, T, S)
    """

    def __init__(self, vocab, emb=16, hid=20):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.lstm = nn.LSTM(emb, hid, batch_first=True)
        self.W_a = nn.Linear(hid, hid, bias=False)
        self.W_c = nn.Linear(2 * hid, hid, bias=False)
        self.W_o = nn.Linear(hid, vocab)

    def forward(self, memory, verse):
        h, _ = self.lstm(self.emb(verse))
        score = torch.bmm(h, self.W_a(memory).transpose(1, 2))
        a = torch.softmax(score, dim=1)
        c = torch.bmm(a, memory)
        h_tilde = self.W_c(torch.cat([c, h], dim=-1))
        return self.W_o(h_tilde), a
