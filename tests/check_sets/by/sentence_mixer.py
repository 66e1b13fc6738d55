"""Student project "QA on SQuAD": self-matching layer of R-Net (Wang et al. 2017).

Every word of the passage is matched with every other word: for word t the
energies are s_j = v . tanh(W_p x_j + W_t x_t), a_t = softmax_j(s), and the
context c_t = sum_j a_tj x_j is glued to x_t and gated before the BiGRU.
"""
import torch
import torch.nn as nn


class SelfMatching(nn.Module):
    def __init__(self, input_size=20, hidden_size=12, att_size=16):
        super().__init__()
        self.W_p = nn.Linear(input_size, att_size, bias=False)
        self.W_t = nn.Linear(input_size, att_size, bias=False)
        self.v = nn.Linear(att_size, 1, bias=False)
        self.gate = nn.Linear(2 * input_size, 2 * input_size, bias=False)
        self.rnn = nn.GRU(2 * input_size, hidden_size, batch_first=True, bidirectional=True)

    def match(self, x, lengths):
        # x: batch, words, input_size
        keys = self.W_p(x)
        queries = self.W_t(x)
        s = self.v(torch.tanh(keys + queries)).transpose(1, 2)
        pad = torch.arange(x.size(1), device=x.device)[None] >= lengths[:, None]
        s = s.masked_fill(pad[:, None, :], float("-inf"))
        a = torch.softmax(s, dim=-1)
        c = torch.matmul(a, x)
        return c.expand_as(x)

    def forward(self, x, lengths):
        c = self.match(x, lengths)
        both = torch.cat([x, c], dim=-1)
        both = torch.sigmoid(self.gate(both)) * both
        out, _ = self.rnn(both)
        return out


class SpanHead(nn.Module):
    """Start and end logits from the matched passage."""

    def __init__(self, hidden_size=12):
        super().__init__()
        self.start = nn.Linear(2 * hidden_size, 1)
        self.end = nn.Linear(2 * hidden_size, 1)

    def forward(self, h):
        return self.start(h).squeeze(-1), self.end(h).squeeze(-1)
