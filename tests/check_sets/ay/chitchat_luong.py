# -*- coding: utf-8 -*-
"""
Chit-chat bot on movie dialogs. GRU encoder, GRU decoder with global attention of
Luong, Pham, Manning (2015), score functions dot / general / concat.

Everything is time-major as in nn.GRU's default: [length, batch, features].
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD_token, SOS_token, EOS_token = 0, 1, 2


class Voc:
    def __init__(self, name):
        self.name = name
        self.index2word = {0: "PAD", 1: "SOS", 2: "EOS"}
        self.word2index = {}

    def addSentence(self, sentence):
        for w in sentence.split(" "):
            if w not in self.word2index:
                n = len(self.index2word)
                self.word2index[w] = n
                self.index2word[n] = w

    def indexes(self, sentence):
        return [self.word2index[w] for w in sentence.split(" ")] + [EOS_token]


class EncoderRNN(nn.Module):
    def __init__(self, hidden_size, embedding, n_layers=2, dropout=0.1):
        super().__init__()
        self.hidden_size = hidden_size
        self.embedding = embedding
        self.gru = nn.GRU(hidden_size, hidden_size, n_layers, dropout=dropout, bidirectional=True)

    def forward(self, input_seq, input_lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(input_seq), input_lengths, enforce_sorted=False)
        outputs, hidden = self.gru(packed)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs, total_length=input_seq.size(0))
        return outputs[:, :, :self.hidden_size] + outputs[:, :, self.hidden_size:], hidden


class Attn(nn.Module):
    """Weights of the source words for the current target state, [batch, 1, max_length]."""

    def __init__(self, method, hidden_size):
        super().__init__()
        if method not in ("dot", "general", "concat"):
            raise ValueError(method, "is not an appropriate attention method.")
        self.method = method
        if method == "general":
            self.attn = nn.Linear(hidden_size, hidden_size, bias=False)
        elif method == "concat":
            self.attn = nn.Linear(hidden_size * 2, hidden_size)
            self.v = nn.Parameter(torch.randn(hidden_size) * hidden_size ** -0.5)

    def score(self, hidden, enc):
        if self.method == "dot":
            return torch.sum(hidden * enc, dim=2)
        if self.method == "general":
            return torch.sum(hidden * self.attn(enc), dim=2)
        energy = self.attn(torch.cat((hidden.expand(enc.size(0), -1, -1), enc), 2)).tanh()
        return torch.sum(self.v * energy, dim=2)

    def forward(self, hidden, encoder_outputs, pad):
        energies = self.score(hidden, encoder_outputs).masked_fill(pad, -1e18)     # [L, B]
        return F.softmax(energies.t(), dim=1).unsqueeze(1)


class LuongAttnDecoderRNN(nn.Module):
    """One decoding step. After the GRU:

        a_t  = align(h_t, encoder states)
        c_t  = sum_s a_t(s) h_s
        h~_t = tanh(W_c [c_t ; h_t])            (eq. 5, the attentional vector)
        p(y) = softmax(W_s h~_t)
    """

    def __init__(self, attn_model, embedding, hidden_size, output_size, n_layers=2, dropout=0.1):
        super().__init__()
        self.n_layers = n_layers
        self.embedding = embedding
        self.embedding_dropout = nn.Dropout(dropout)
        self.gru = nn.GRU(hidden_size, hidden_size, n_layers, dropout=dropout if n_layers > 1 else 0)
        self.attn = Attn(attn_model, hidden_size)
        self.concat = nn.Linear(hidden_size * 2, hidden_size)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, input_step, last_hidden, encoder_outputs, pad):
        """input_step [1, B]; last_hidden [layers, B, H]; encoder_outputs [L, B, H]; pad [L, B] True = padding"""
        embedded = self.embedding_dropout(self.embedding(input_step))
        rnn_output, hidden = self.gru(embedded, last_hidden)
        attn_weights = self.attn(rnn_output, encoder_outputs, pad)
        context = attn_weights.bmm(encoder_outputs.transpose(0, 1))               # [B, 1, H]
        rnn_output = rnn_output.squeeze(0)
        context = context.squeeze(1)
        concat_output = self.concat(torch.cat((context, rnn_output), 1))
        output = F.softmax(self.out(concat_output), dim=1)
        return output, hidden


class GreedySearchDecoder(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    @torch.no_grad()
    def forward(self, input_seq, input_length, max_length=10):
        enc, h = self.encoder(input_seq, input_length)
        h = h[:self.decoder.n_layers]
        pad = input_seq == PAD_token
        tok = torch.full((1, input_seq.size(1)), SOS_token, dtype=torch.long)
        said = []
        for _ in range(max_length):
            p, h = self.decoder(tok, h, enc, pad)
            tok = p.argmax(dim=1, keepdim=True).t()
            said.append(tok)
        return torch.cat(said, 0)


def maskNLLLoss(inp, target, mask):
    nll = -torch.log(torch.gather(inp, 1, target.view(-1, 1)).squeeze(1))
    return nll.masked_select(mask).mean(), mask.sum().item()
