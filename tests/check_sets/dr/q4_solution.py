"""Assignment 4, question 2: sentence classifier with self attention.

`SentenceClassifier(tokens)`: tokens (batch, length) of word ids, 0 = <pad>. Words attend to the
words of their own sentence; <pad> positions must get no attention at all, so that adding
more padding to a sentence does not change its logits. The sentence vector is the mean of the
outputs of the real words. Every sentence has at least one real word.

Returns logits (batch, classes).
"""
import math
import torch
import torch.nn as nn

PAD = 0


class SelfAttention(nn.Module):
    def __init__(self, hidden_dim):
        super().__init__()
        self.query = nn.Linear(hidden_dim, hidden_dim)
        self.key = nn.Linear(hidden_dim, hidden_dim)
        self.value = nn.Linear(hidden_dim, hidden_dim)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x, mask):
        q, k, v = self.query(x), self.key(x), self.value(x)
        energy = torch.bmm(q, k.permute(0, 2, 1)) / math.sqrt(q.size(-1))
        # mask: (batch, length), True for real words
        mask = mask.unsqueeze(1).expand_as(energy)
        energy.masked_fill(mask == 0, float("-1e20"))
        attention = self.softmax(energy)
        return torch.bmm(attention, v)


class SentenceClassifier(nn.Module):
    def __init__(self, vocab_size, hidden_dim=32, classes=3):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, hidden_dim, padding_idx=PAD)
        self.attention = SelfAttention(hidden_dim)
        self.norm = nn.LayerNorm(hidden_dim)
        self.linear = nn.Linear(hidden_dim, classes)

    def forward(self, tokens):
        mask = tokens != PAD
        x = self.embedding(tokens)
        x = self.norm(x + self.attention(x, mask))
        m = mask.unsqueeze(-1).to(x.dtype)
        sentence = (x * m).sum(1) / m.sum(1)
        return self.linear(sentence)
