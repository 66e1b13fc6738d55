"""GRU encoder-decoder with Bahdanau attention, whole teacher-forced decoding loop."""
import torch
import torch.nn as nn


class BahdanauScore(nn.Module):
    """e_j = v^T tanh(W_s s + W_h h_j)"""

    def __init__(self, dec_dim, enc_dim, att_dim):
        super().__init__()
        self.W_s = nn.Linear(dec_dim, att_dim, bias=False)
        self.W_h = nn.Linear(enc_dim, att_dim)
        self.v = nn.Linear(att_dim, 1, bias=False)

    def forward(self, state, memory, valid):
        energy = self.v(torch.tanh(self.W_s(state).unsqueeze(1) + self.W_h(memory))).squeeze(-1)
        energy = energy.masked_fill(~valid, torch.finfo(energy.dtype).min)
        weights = torch.softmax(energy, dim=-1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        return context, weights


class Seq2SeqGRU(nn.Module):
    """src (B, S) tokens, src_len (B,) lengths >= 1, tgt (B, T) tokens.

    Returns logits (B, T, n_tgt) and alignments (B, T, S).
    """

    def __init__(self, n_src=40, n_tgt=50, emb=16, hid=24):
        super().__init__()
        self.src_emb = nn.Embedding(n_src, emb)
        self.tgt_emb = nn.Embedding(n_tgt, emb)
        self.encoder = nn.GRU(emb, hid, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * hid, hid)
        self.attn = BahdanauScore(hid, 2 * hid, hid)
        self.cell = nn.GRUCell(emb + 2 * hid, hid)
        self.out = nn.Linear(hid + 2 * hid + emb, n_tgt)

    def encode(self, src, src_len):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.src_emb(src), src_len.cpu(), batch_first=True, enforce_sorted=False)
        memory, last = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(memory, batch_first=True, total_length=src.shape[1])
        state = torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=-1)))
        return memory, state

    def forward(self, src, src_len, tgt):
        memory, state = self.encode(src, src_len)
        valid = torch.arange(src.shape[1], device=src.device)[None] < src_len[:, None]
        logits, alignments = [], []
        for t in range(tgt.shape[1]):
            y = self.tgt_emb(tgt[:, t])
            context, w = self.attn(state, memory, valid)
            state = self.cell(torch.cat([y, context], dim=-1), state)
            logits.append(self.out(torch.cat([state, context, y], dim=-1)))
            alignments.append(w)
        return torch.stack(logits, 1), torch.stack(alignments, 1)
