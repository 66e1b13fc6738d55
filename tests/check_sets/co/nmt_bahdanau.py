"""Neural machine translation by jointly learning to align and translate (Bahdanau et al., 2015)."""
import torch
import torch.nn as nn


class BahdanauAttention(nn.Module):
    """
    e_ij = v^T tanh(W s_{i-1} + U h_j)
    alpha_ij = softmax_j(e_ij),  c_i = sum_j alpha_ij h_j
    """

    def __init__(self, dec_dim=24, enc_dim=32, attn_dim=20):
        super().__init__()
        self.W = nn.Linear(dec_dim, attn_dim, bias=False)
        self.U = nn.Linear(enc_dim, attn_dim)
        self.v = nn.Linear(attn_dim, 1, bias=False)

    def forward(self, state, enc_out, src_len):
        """
        state:   [batch, dec_dim]           decoder state before this step
        enc_out: [batch, src, enc_dim]
        src_len: [batch] number of real source tokens (>= 1)
        returns  context [batch, enc_dim], alpha [batch, src]
        """
        energy = self.v(torch.tanh(self.W(state).unsqueeze(1) + self.U(enc_out))).squeeze(-1)
        positions = torch.arange(enc_out.size(1), device=enc_out.device)
        energy = energy.masked_fill(positions[None, :] >= src_len[:, None], float("-inf"))
        alpha = torch.softmax(energy, dim=1)
        context = torch.bmm(alpha.unsqueeze(1), enc_out).squeeze(1)
        return context, alpha


class Encoder(nn.Module):
    def __init__(self, vocab=50, emb=16, hid=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.rnn = nn.GRU(emb, hid, batch_first=True, bidirectional=True)

    def forward(self, src, src_len):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.emb(src), src_len.cpu(), batch_first=True, enforce_sorted=False)
        out, h = self.rnn(packed)
        out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=src.size(1))
        return out, h


class Decoder(nn.Module):
    def __init__(self, vocab=50, emb=16, dec_dim=24, enc_dim=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.attn = BahdanauAttention(dec_dim, enc_dim)
        self.cell = nn.GRUCell(emb + enc_dim, dec_dim)
        self.out = nn.Linear(dec_dim + enc_dim + emb, vocab)

    def forward(self, tgt, state, enc_out, src_len):
        logits = []
        for t in range(tgt.size(1)):
            e = self.emb(tgt[:, t])
            ctx, _ = self.attn(state, enc_out, src_len)
            state = self.cell(torch.cat([e, ctx], dim=-1), state)
            logits.append(self.out(torch.cat([state, ctx, e], dim=-1)))
        return torch.stack(logits, dim=1)
