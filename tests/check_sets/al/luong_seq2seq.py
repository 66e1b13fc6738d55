"""Effective Approaches to Attention-based NMT (Luong et al. 2015), global attention, input feeding.

    score(h_t, h_s) = h_t^T W_a h_s                       ("general")
    a_t(s)          = softmax over the source words s (padding gets no weight, the weights sum to 1)
    h~_t            = tanh(W_c [c_t ; h_t])
"""
import torch
import torch.nn as nn


class SrcEncoder(nn.Module):
    def __init__(self, vocab, emb, hid, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.rnn = nn.LSTM(emb, hid, layers, batch_first=True)

    def forward(self, src, src_len):
        packed = nn.utils.rnn.pack_padded_sequence(self.emb(src), src_len.cpu(), batch_first=True,
                                                   enforce_sorted=False)
        out, state = self.rnn(packed)
        out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=src.shape[1])
        return out, state


class GlobalAttention(nn.Module):
    """One decoder step: h_t [B, H], memory [B, S, H], src_mask [B, S] (1 = word, 0 = padding)."""

    def __init__(self, hid):
        super().__init__()
        self.W_a = nn.Linear(hid, hid, bias=False)
        self.W_c = nn.Linear(2 * hid, hid, bias=False)

    def forward(self, h_t, memory, src_mask):
        score = torch.bmm(self.W_a(memory), h_t.unsqueeze(2)).squeeze(2)
        a_t = torch.softmax(score, dim=1)
        a_t = a_t * src_mask.to(a_t.dtype)
        c_t = torch.bmm(a_t.unsqueeze(1), memory).squeeze(1)
        h_tilde = self.W_c(torch.cat([c_t, h_t], dim=1))
        return h_tilde, a_t


class InputFeedDecoder(nn.Module):
    def __init__(self, vocab, emb, hid, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.cells = nn.ModuleList(nn.LSTMCell(emb + hid if i == 0 else hid, hid) for i in range(layers))
        self.attn = GlobalAttention(hid)
        self.out = nn.Linear(hid, vocab)

    def forward(self, tgt, memory, src_mask, state):
        h, c = list(state[0]), list(state[1])
        feed = memory.new_zeros(memory.shape[0], memory.shape[2])
        logits, aligned = [], []
        for t in range(tgt.shape[1]):
            x = torch.cat([self.emb(tgt[:, t]), feed], dim=1)
            for i, cell in enumerate(self.cells):
                h[i], c[i] = cell(x, (h[i], c[i]))
                x = h[i]
            feed, a = self.attn(x, memory, src_mask)
            logits.append(self.out(feed))
            aligned.append(a)
        return torch.stack(logits, 1), torch.stack(aligned, 1)
