import torch
import torch.nn as nn
import torch.nn.functional as F


class LocationLayer(nn.Module):
    def __init__(self, n_filters, kernel_size, attention_dim):
        super().__init__()
        self.conv = nn.Conv1d(2, n_filters, kernel_size,
                              padding=(kernel_size - 1) // 2, bias=False)
        self.dense = nn.Linear(n_filters, attention_dim, bias=False)

    def forward(self, cat):
        return self.dense(self.conv(cat).transpose(1, 2))


class LSA(nn.Module):
    """Location sensitive attention (Chorowski 2015) as in Tacotron 2.

    Call `start(memory, lengths)` once for each batch, then `forward(query)` for every
    mel frame. The location features are taken from the previous and the summed weights.
    """

    def __init__(self, rnn_dim=64, memory_dim=48, attention_dim=32, n_filters=8, kernel_size=7):
        super().__init__()
        self.q = nn.Linear(rnn_dim, attention_dim, bias=False)
        self.m = nn.Linear(memory_dim, attention_dim, bias=False)
        self.v = nn.Linear(attention_dim, 1, bias=False)
        self.loc = LocationLayer(n_filters, kernel_size, attention_dim)

    def start(self, memory, lengths):
        self.memory = memory
        self.pm = self.m(memory)
        steps = torch.arange(memory.size(1), device=memory.device)
        self.pad = steps[None, :] >= lengths[:, None]
        self.prev = memory.new_zeros(memory.shape[:2])
        self.total = memory.new_zeros(memory.shape[:2])

    def forward(self, query):
        """query [B, rnn_dim] -> context [B, memory_dim], weights [B, T]"""
        f = self.loc(torch.stack((self.prev, self.total), dim=1))
        e = self.v(torch.tanh(self.q(query).unsqueeze(1) + self.pm + f)).squeeze(2)
        e = e.masked_fill(self.pad, -float("inf"))
        a = F.softmax(e, dim=1)
        self.prev = a
        self.total = self.total + a
        return torch.bmm(a.unsqueeze(1), self.memory).squeeze(1), a
