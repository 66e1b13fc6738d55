"""
Seq2seq chatbot with attention, adapted from the official translation tutorial
for batches. Encoder states are (B, S, H); the decoder runs one word per call.
"""
import random
import torch
import torch.nn as nn
import torch.nn.functional as F

SOS_token, EOS_token, PAD_token = 0, 1, 2
MAX_LENGTH = 12


class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size):
        super(EncoderRNN, self).__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(input_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)

    def forward(self, inp):
        output, hidden = self.gru(self.embedding(inp))
        return output, hidden


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super(BahdanauAttention, self).__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, MAX_LENGTH)

    def forward(self, query, keys, mask=None):
        """query (B,1,H), keys (B,S,H), mask (B,S) True = PAD"""
        S = keys.size(1)
        summary = self.Ua(query)
        scores = self.Va(torch.tanh(self.Wa(query) + summary))[:, :, :S]
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1), float('-inf'))
        weights = F.softmax(scores, dim=-1)
        context = torch.bmm(weights, keys)
        return context, weights


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size, dropout_p=0.1):
        super(AttnDecoderRNN, self).__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attention = BahdanauAttention(hidden_size)
        self.gru = nn.GRU(2 * hidden_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, output_size)
        self.dropout = nn.Dropout(dropout_p)

    def forward_step(self, word, hidden, encoder_outputs, mask=None):
        embedded = self.dropout(self.embedding(word))
        query = hidden.permute(1, 0, 2)
        context, attn = self.attention(query, encoder_outputs, mask)
        output, hidden = self.gru(torch.cat((embedded, context), dim=2), hidden)
        return self.out(output), hidden, attn

    def forward(self, encoder_outputs, encoder_hidden, target=None, mask=None, p_teacher=1.0):
        B = encoder_outputs.size(0)
        word = torch.full((B, 1), SOS_token, dtype=torch.long, device=encoder_outputs.device)
        hidden, outs, attns = encoder_hidden, [], []
        n = MAX_LENGTH if target is None else target.size(1)
        for i in range(n):
            o, hidden, a = self.forward_step(word, hidden, encoder_outputs, mask)
            outs.append(o)
            attns.append(a)
            if target is not None and random.random() < p_teacher:
                word = target[:, i].unsqueeze(1)
            else:
                word = o.argmax(-1).detach()
        return F.log_softmax(torch.cat(outs, 1), dim=-1), hidden, torch.cat(attns, 1)


class Chatbot(nn.Module):
    def __init__(self, vocab=40, hidden=20):
        super(Chatbot, self).__init__()
        self.encoder, self.decoder = EncoderRNN(vocab, hidden), AttnDecoderRNN(hidden, vocab)

    def forward(self, question, answer=None):
        enc, h = self.encoder(question)
        return self.decoder(enc, h, answer, question == PAD_token)
