import torch
import torch.nn as nn
import torch.nn.functional as F


class BahdanauDecoder(nn.Module):
    """One step of a GRU decoder with the alignment model of Bahdanau et al. 2015,

        alpha_tj = softmax_j a(s_{t-1}, h_j)

    word (batch,), state (batch, hidden), encoder_outputs (batch, src_len, hidden); src_len <= max_length.
    Returns log probabilities (batch, vocab), the new state and alpha (batch, src_len).
    """

    def __init__(self, vocab=11, hidden=8, max_length=12):
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.attn = nn.Linear(hidden * 2, max_length)
        self.attn_combine = nn.Linear(hidden * 2, hidden)
        self.gru = nn.GRUCell(hidden, hidden)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, word, state, encoder_outputs):
        embedded = self.embedding(word)
        energy = self.attn(torch.cat((embedded, state), 1))
        alpha = F.softmax(energy[:, : encoder_outputs.shape[1]], dim=1)
        context = torch.bmm(alpha.unsqueeze(1), encoder_outputs).squeeze(1)

        x = F.relu(self.attn_combine(torch.cat((embedded, context), 1)))
        state = self.gru(x, state)
        return F.log_softmax(self.out(state), dim=1), state, alpha
