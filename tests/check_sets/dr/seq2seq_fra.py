"""
Translation with a sequence to sequence network and attention
*************************************************************

The decoder reads one French word at a time and, before each word, looks back at the
English sentence: it compares its own state with each of the encoder outputs (one
vector per English word) by a small feed-forward network, turns the scores into weights
with a softmax over the English words, and takes the weighted sum of the encoder outputs.

``forward(input, hidden, encoder_outputs)`` is one step for a batch:

* ``input`` (B,) word ids;
* ``hidden`` (1, B, H) state of the GRU;
* ``encoder_outputs`` (B, MAX_LENGTH, H): all sentences are filled up to MAX_LENGTH with
  <pad> words, and the weights range over all MAX_LENGTH positions;
* returns log-probabilities (B, V), the new hidden (1, B, H), weights (B, MAX_LENGTH).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

MAX_LENGTH = 10


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size, dropout_p=0.1, max_length=MAX_LENGTH):
        super(AttnDecoderRNN, self).__init__()
        self.hidden_size = hidden_size
        self.output_size = output_size
        self.dropout_p = dropout_p
        self.max_length = max_length

        self.embedding = nn.Embedding(self.output_size, self.hidden_size)
        self.attn = nn.Linear(self.hidden_size * 2, self.max_length)
        self.attn_combine = nn.Linear(self.hidden_size * 2, self.hidden_size)
        self.dropout = nn.Dropout(self.dropout_p)
        self.gru = nn.GRU(self.hidden_size, self.hidden_size, batch_first=True)
        self.out = nn.Linear(self.hidden_size, self.output_size)

    def forward(self, input, hidden, encoder_outputs):
        embedded = self.dropout(self.embedding(input))          # (B, H)

        attn_weights = F.softmax(
            self.attn(torch.cat((embedded, hidden[0]), 1)), dim=1)
        attn_applied = torch.bmm(attn_weights.unsqueeze(1), encoder_outputs)

        output = torch.cat((embedded, attn_applied[:, 0]), 1)
        output = F.relu(self.attn_combine(output)).unsqueeze(1)
        output, hidden = self.gru(output, hidden)

        output = F.log_softmax(self.out(output[:, 0]), dim=1)
        return output, hidden, attn_weights

    def init_hidden(self, batch_size, device=None):
        return torch.zeros(1, batch_size, self.hidden_size, device=device)
