"""seq2seq for container moves in a terminal: given the yard plan (a sequence of stacks),
write the sequence of crane moves. Luong 'general' attention, teacher forcing."""
import torch
from torch import nn


class MoveDecoder(nn.Module):
    """score(h_t, s) = h_t^T W s ; h~_t = tanh(W_c [c_t ; h_t])  (Luong et al., eqs. 5 and 8)

    With input feeding: h~ of the last step is appended to the next input.
    """

    def __init__(self, n_moves=12, emb=10, hid=20):
        super().__init__()
        self.emb = nn.Embedding(n_moves, emb)
        self.rnn = nn.LSTMCell(emb + hid, hid)
        self.W = nn.Linear(hid, hid, bias=False)
        self.Wc = nn.Linear(2 * hid, hid, bias=False)
        self.out = nn.Linear(hid, n_moves)

    def forward(self, moves, memory, mem_len, state):
        B, S, hid = memory.shape
        keys = self.W(memory)
        outside = torch.arange(S, device=memory.device).expand(B, S) >= mem_len.unsqueeze(1)
        feed = memory.new_zeros(B, hid)
        logits = []
        for e in self.emb(moves).unbind(dim=1):
            state = self.rnn(torch.cat((e, feed), dim=1), state)
            h = state[0]
            score = torch.bmm(keys, h.unsqueeze(2)).squeeze(2)
            a = torch.softmax(score.masked_fill(outside, -float("inf")), dim=1)
            c = torch.bmm(a.unsqueeze(1), memory).squeeze(1)
            feed = torch.tanh(self.Wc(torch.cat((c, h), dim=1)))
            logits.append(self.out(feed))
        return torch.stack(logits, dim=1)


class TerminalPlanner(nn.Module):
    """stacks (B, S, 6), n_stacks (B,) >= 1 real ones (rest padding), moves (B, T) -> (B, T, n_moves)"""

    def __init__(self, n_moves=12, hid=20):
        super().__init__()
        self.enc = nn.LSTM(6, hid, batch_first=True)
        self.dec = MoveDecoder(n_moves, 10, hid)

    def forward(self, stacks, n_stacks, moves):
        packed = nn.utils.rnn.pack_padded_sequence(stacks, n_stacks.cpu(), batch_first=True, enforce_sorted=False)
        mem, (h, c) = self.enc(packed)
        mem, _ = nn.utils.rnn.pad_packed_sequence(mem, batch_first=True, total_length=stacks.size(1))
        return self.dec(moves, mem, n_stacks, (h[0], c[0]))
