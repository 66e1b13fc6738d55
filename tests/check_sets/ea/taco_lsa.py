# coding: utf-8
""" Tacotron2 decoder attention (location sensitive). """
import torch
from torch import nn
from torch.nn import functional as F


class LocationSensitive(nn.Module):
    """Chorowski-style hybrid attention used by Tacotron 2.

    PARAMS of forward
    ------
    query: decoder LSTM output, (B, rnn_dim)
    memory: encoder outputs, (B, T_text, emb)
    processed_memory: self.memory_layer(memory), computed once per utterance
    history: (B, 2, T_text): row 0 = alignment of the previous step, row 1 = the
             cumulative sum of ALL alignments so far (zeros at the first step)
    mask: (B, T_text) bool, True for padded characters (they must get no weight),
          or None.  At least one character of each sentence is not padded.

    RETURNS
    -------
    context (B, emb), alignment (B, T_text), and the new history (B, 2, T_text)

    energy_j = v . tanh(W_q query + W_m memory_j + W_l conv(history)_j)
    """

    def __init__(self, rnn_dim, emb, att_dim=128, n_filters=32, ks=31):
        super().__init__()
        self.query_layer = nn.Linear(rnn_dim, att_dim, bias=False)
        self.memory_layer = nn.Linear(emb, att_dim, bias=False)
        self.v = nn.Linear(att_dim, 1, bias=False)
        self.location_conv = nn.Conv1d(2, n_filters, ks, padding=(ks - 1) // 2, bias=False)
        self.location_dense = nn.Linear(n_filters, att_dim, bias=False)
        self.score_mask_value = -float("inf")

    def get_alignment_energies(self, query, processed_memory, history):
        pq = self.query_layer(query.unsqueeze(1))
        loc = self.location_dense(self.location_conv(history).transpose(1, 2))
        return self.v(torch.tanh(pq + loc + processed_memory)).squeeze(-1)

    def forward(self, query, memory, processed_memory, history, mask=None):
        energies = self.get_alignment_energies(query, processed_memory, history)
        if mask is not None:
            energies.data.masked_fill_(mask, self.score_mask_value)
        w = F.softmax(energies, dim=1)
        context = torch.bmm(w.unsqueeze(1), memory).squeeze(1)
        history = torch.stack([w, history[:, 1] + w], dim=1)
        return context, w, history
