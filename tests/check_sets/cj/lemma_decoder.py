"""
Character level lemmatiser: BiGRU encoder, GRU decoder with Bahdanau attention.
Training only uses teacher forcing, decoding lives in decode.py.
"""
import torch
from torch import nn


class BahdanauScorer(nn.Module):
    """score(s, h_j) = v^T tanh(W s + U h_j)"""

    def __init__(self, dec_dim, enc_dim, att_dim):
        super().__init__()
        self.W = nn.Linear(dec_dim, att_dim, bias=False)
        self.U = nn.Linear(enc_dim, att_dim)
        self.v = nn.Linear(att_dim, 1, bias=False)

    def forward(self, state, projected_keys, keep):
        # state (B, dec_dim), projected_keys (B, T, att_dim), keep (B, T) True on characters
        e = self.v(torch.tanh(self.W(state).unsqueeze(1) + projected_keys)).squeeze(-1)
        e = e.masked_fill(~keep, torch.finfo(e.dtype).min)
        return e.softmax(dim=1)


class Lemmatiser(nn.Module):
    def __init__(self, n_chars=40, emb=16, hidden=24, att=20):
        super().__init__()
        self.embed = nn.Embedding(n_chars, emb, padding_idx=0)
        self.encoder = nn.GRU(emb, hidden, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * hidden, hidden)
        self.scorer = BahdanauScorer(hidden, 2 * hidden, att)
        self.cell = nn.GRUCell(emb + 2 * hidden, hidden)
        self.readout = nn.Linear(hidden + 2 * hidden + emb, n_chars)

    def encode(self, word):
        lengths = (word != 0).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embed(word), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        out, h = self.encoder(packed)
        out, _ = nn.utils.rnn.pad_packed_sequence(
            out, batch_first=True, total_length=word.size(1)
        )
        start = torch.tanh(self.bridge(torch.cat([h[0], h[1]], dim=-1)))
        return out, start

    def forward(self, word, lemma_in):
        """word (B, T) right padded with 0, at least one character each;
        lemma_in (B, S) shifted target. Returns logits (B, S, n_chars) and the
        alignment (B, S, T)."""
        memory, state = self.encode(word)
        keep = word != 0
        keys = self.scorer.U(memory)
        logits, alignment = [], []
        for t in range(lemma_in.size(1)):
            prev = self.embed(lemma_in[:, t])
            a = self.scorer(state, keys, keep)
            context = torch.bmm(a.unsqueeze(1), memory).squeeze(1)
            state = self.cell(torch.cat([prev, context], dim=-1), state)
            logits.append(self.readout(torch.cat([state, context, prev], dim=-1)))
            alignment.append(a)
        return torch.stack(logits, 1), torch.stack(alignment, 1)
