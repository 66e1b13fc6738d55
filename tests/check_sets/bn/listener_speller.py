'''Listen, attend and spell with a multi-head attender.

    listener : pyramidal BLSTM
    speller  : LSTM decoder, attends once per step
'''
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def lengths_to_padding(lengths, max_len):
    ''' (B,) -> (B, T) bool; True marks padding frames '''
    return torch.arange(max_len, device=lengths.device)[None, :] >= lengths[:, None]


class PyramidBLSTM(nn.Module):
    def __init__(self, in_dim, hid):
        super(PyramidBLSTM, self).__init__()
        self.lstm = nn.LSTM(in_dim * 2, hid, batch_first=True, bidirectional=True)

    def forward(self, x, lengths):
        if x.size(1) % 2:
            x = F.pad(x, (0, 0, 0, 1))
        x = x.reshape(x.size(0), x.size(1) // 2, -1)
        lengths = torch.div(lengths + 1, 2, rounding_mode='floor')
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))
        return out, lengths


class MultiHeadAttender(nn.Module):
    '''
    Inputs: query (B, Tq, Dq), memory (B, Tk, Dm), padding (B, Tk) bool
        - padding: True for frames behind the end of the utterance
    Outputs: context (B, Tq, D), alignment (B, H, Tq, Tk)
    '''
    def __init__(self, q_dim, m_dim, dim=64, num_heads=4):
        super(MultiHeadAttender, self).__init__()
        assert dim % num_heads == 0
        self.num_heads = num_heads
        self.d_head = dim // num_heads
        self.query_proj = nn.Linear(q_dim, dim)
        self.key_proj = nn.Linear(m_dim, dim)
        self.value_proj = nn.Linear(m_dim, dim)
        self.out_proj = nn.Linear(dim, dim)

    def _fold(self, x):
        B, T, _ = x.shape
        x = x.view(B, T, self.num_heads, self.d_head).transpose(1, 2)
        return x.reshape(B * self.num_heads, T, self.d_head)

    def forward(self, query, memory, padding=None):
        B, Tq, _ = query.shape
        q = self._fold(self.query_proj(query))
        k = self._fold(self.key_proj(memory))
        v = self._fold(self.value_proj(memory))

        score = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.d_head)
        if padding is not None:
            mask = padding.unsqueeze(1).repeat(self.num_heads, 1, 1)
            score = score.masked_fill(mask, float('-inf'))
        align = F.softmax(score, dim=-1)

        context = torch.bmm(align, v)
        context = context.view(B, self.num_heads, Tq, self.d_head).transpose(1, 2)
        context = self.out_proj(context.reshape(B, Tq, -1))
        return context, align.view(B, self.num_heads, Tq, -1)


class LAS(nn.Module):
    def __init__(self, n_mels=40, hid=32, n_chars=30, dim=64):
        super(LAS, self).__init__()
        self.listen = nn.ModuleList([PyramidBLSTM(n_mels, hid), PyramidBLSTM(2 * hid, hid)])
        self.embed = nn.Embedding(n_chars, dim)
        self.cell = nn.LSTMCell(2 * dim, dim)
        self.attend = MultiHeadAttender(dim, 2 * hid, dim)
        self.classify = nn.Linear(2 * dim, n_chars)
        self.dim = dim

    def forward(self, mels, lengths, chars):
        x = mels
        for layer in self.listen:
            x, lengths = layer(x, lengths)
        padding = lengths_to_padding(lengths, x.size(1))
        B = x.size(0)
        state = (x.new_zeros(B, self.dim), x.new_zeros(B, self.dim))
        context = x.new_zeros(B, self.dim)
        logits = []
        for t in range(chars.size(1)):
            state = self.cell(torch.cat([self.embed(chars[:, t]), context], -1), state)
            context = self.attend(state[0].unsqueeze(1), x, padding)[0].squeeze(1)
            logits.append(self.classify(torch.cat([state[0], context], -1)))
        return torch.stack(logits, 1)
