import torch
import torch.nn as nn


class WordAttention(nn.Module):
    """Attends over the words of a document that are there.  words (B, L, dim), mask (B, L) 1 for words and 0 for padding;
    the weights over the words sum to one."""

    def __init__(self, dim, att=8):
        super().__init__()
        self.proj = nn.Linear(dim, att)
        self.context = nn.Linear(att, 1, bias=False)

    def forward(self, words, mask):
        u = torch.tanh(self.proj(words))
        s = self.context(u).squeeze(-1)
        a = torch.softmax(s, dim=1) * mask
        return torch.bmm(a.unsqueeze(1), words).squeeze(1), a
