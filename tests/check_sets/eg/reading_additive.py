"""Document classification with a query: Bahdanau style reader in PyTorch.

score(q, h_t) = v . tanh(W [q ; h_t]), a = softmax over t of the document, r = sum_t a_t h_t.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Attn(nn.Module):
    """
    hidden          (B, H)     the question vector
    encoder_outputs (T, B, H)  time first, as the GRU gives it; documents of equal length
    Returns weights (B, 1, T) which sum to one over T.
    """

    def __init__(self, hidden_size):
        super(Attn, self).__init__()
        self.hidden_size = hidden_size
        self.attn = nn.Linear(hidden_size * 2, hidden_size)
        self.v = nn.Parameter(torch.rand(hidden_size) / hidden_size ** 0.5)

    def forward(self, hidden, encoder_outputs):
        timestep = encoder_outputs.size(0)
        h = hidden.repeat(timestep, 1, 1).transpose(0, 1)
        encoder_outputs = encoder_outputs.transpose(0, 1)
        return F.softmax(self.score(h, encoder_outputs), dim=1).unsqueeze(1)

    def score(self, hidden, encoder_outputs):
        energy = self.attn(torch.cat([hidden, encoder_outputs], 2))
        energy = energy.transpose(2, 1)
        v = self.v.repeat(encoder_outputs.size(0), 1).unsqueeze(1)
        energy = torch.bmm(v, energy)
        return energy.squeeze(1)


class Reader(nn.Module):
    """doc (T, B) and question (Q, B) word ids, time first -> logits (B, n_class)"""

    def __init__(self, vocab=60, hidden=24, n_class=5):
        super(Reader, self).__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.doc_gru = nn.GRU(hidden, hidden)
        self.q_gru = nn.GRU(hidden, hidden)
        self.attn = Attn(hidden)
        self.out = nn.Linear(2 * hidden, n_class)

    def forward(self, doc, question):
        states, _ = self.doc_gru(self.embedding(doc))
        _, q = self.q_gru(self.embedding(question))
        weights = self.attn(q[-1], states)
        r = weights.bmm(states.transpose(0, 1)).squeeze(1)
        return self.out(torch.cat([r, q[-1]], 1))
