import torch
import torch.nn as nn
import torch.nn.functional as F


class AdditiveAttention(nn.Module):
    """Bahdanau et al. 2015: e_j = v^T tanh(W s + U h_j)."""

    def __init__(self, dec_dim, enc_dim, attn_dim):
        super().__init__()
        self.W = nn.Linear(dec_dim, attn_dim, bias=False)
        self.U = nn.Linear(enc_dim, attn_dim)
        self.v = nn.Linear(attn_dim, 1, bias=False)

    def forward(self, state, enc_out, src_mask=None):
        # state [B, dec_dim], enc_out [B, S, enc_dim]
        energy = self.v(torch.tanh(self.W(state).unsqueeze(1) + self.U(enc_out)))
        energy = energy.squeeze(-1)                      # [B, S]
        if src_mask is not None:
            energy = energy.masked_fill(src_mask == 0, -1e9)
        alpha = F.softmax(energy, dim=1)
        context = torch.bmm(alpha.unsqueeze(1), enc_out).squeeze(1)
        return context, alpha


class AttnDecoderRNN(nn.Module):
    """One decoding step of a GRU decoder with additive attention.

    token:    [B] ids of the previous output word
    state:    [B, hidden] previous decoder state
    enc_out:  [B, S, 2 * enc_hidden] outputs of the bidirectional encoder
    src_mask: [B, S], 1 for words and 0 for padding
    """

    def __init__(self, vocab, emb=32, hidden=48, enc_hidden=24, attn_dim=40, dropout=0.2):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.dropout = nn.Dropout(dropout)
        self.attention = AdditiveAttention(hidden, 2 * enc_hidden, attn_dim)
        self.cell = nn.GRUCell(emb + 2 * enc_hidden, hidden)
        self.out = nn.Linear(hidden + 2 * enc_hidden + emb, vocab)

    def forward(self, token, state, enc_out, src_mask=None):
        e = self.dropout(self.embedding(token))
        context, alpha = self.attention(state, enc_out, src_mask)
        state = self.cell(torch.cat([e, context], dim=-1), state)
        logits = self.out(torch.cat([state, context, e], dim=-1))
        return logits, state, alpha
