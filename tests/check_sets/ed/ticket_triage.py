"""Ticket triage, third version (the one behind the inbox since March).

A ticket is a row of word ids.  A handful of learned topics read the words, the
readings are glued together and a small head picks the queue.

    tokens   LongTensor (batch, words).  0 is padding, everything else is a word.
             Every ticket has at least one word; padding is on the right.
    returns  logits (batch, queues); with return_alpha=True also alpha
             (batch, words, topics): how much each topic read each word.  For a
             given topic the numbers over the words of one ticket sum to 1 and
             padding gets 0.

Logits of the reader are <key(word), topic> / sqrt(width).
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


class TicketTriage(nn.Module):
    def __init__(self, vocab, queues, width=64, topics=5, p=0.1):
        super().__init__()
        self.width = width
        self.emb = nn.Embedding(vocab, width, padding_idx=0)
        self.near = nn.Conv1d(width, width, 3, padding=1)
        self.key = nn.Linear(width, width)
        self.topics = nn.Parameter(torch.randn(topics, width))
        self.drop = nn.Dropout(p)
        self.head = nn.Sequential(
            nn.Linear(topics * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, queues)
        )

    def forward(self, tokens, return_alpha=False):
        word = tokens.ne(0)
        x = self.emb(tokens)
        x = x + F.relu(self.near(x.transpose(1, 2))).transpose(1, 2)

        s = self.key(x) @ self.topics.t() / math.sqrt(self.width)   # (batch, words, topics)
        s = s.masked_fill(~word.unsqueeze(-1), float("-inf"))
        alpha = s.softmax(dim=1)

        read = torch.einsum("bwt,bwd->btd", self.drop(alpha), x)
        logits = self.head(read.flatten(1))
        if return_alpha:
            return logits, alpha
        return logits


if __name__ == "__main__":
    net = TicketTriage(vocab=1000, queues=7)
    ids = torch.tensor([[5, 8, 13, 0, 0], [3, 1, 4, 1, 5]])
    print(net(ids).shape)
