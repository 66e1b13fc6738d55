#!/usr/bin/env python3
# -*- coding: utf-8 -*-
"""
Assignment 4: NMT with a BiLSTM encoder and an LSTM decoder with multiplicative attention.
Notation follows the handout:

    e_{t,i}  = (h_t^dec)^T W_attProj h_i^enc           (no scaling factor, see handout eq. 7)
    alpha_t  = softmax(e_t)                            eq. 8
    a_t      = sum_i alpha_{t,i} h_i^enc               eq. 9
    u_t      = [a_t ; h_t^dec],  v_t = W_u u_t,  o_t = dropout(tanh(v_t))
"""
from typing import List, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class NMT(nn.Module):
    def __init__(self, embed_size, hidden_size, n_src, n_tgt, pad_id=0, dropout_rate=0.2):
        super().__init__()
        self.hidden_size = hidden_size
        self.pad_id = pad_id
        self.src_embed = nn.Embedding(n_src, embed_size, padding_idx=pad_id)
        self.tgt_embed = nn.Embedding(n_tgt, embed_size, padding_idx=pad_id)
        self.encoder = nn.LSTM(embed_size, hidden_size, bidirectional=True)
        self.decoder = nn.LSTMCell(embed_size + hidden_size, hidden_size)
        self.h_projection = nn.Linear(2 * hidden_size, hidden_size, bias=False)
        self.c_projection = nn.Linear(2 * hidden_size, hidden_size, bias=False)
        self.att_projection = nn.Linear(2 * hidden_size, hidden_size, bias=False)
        self.combined_output_projection = nn.Linear(3 * hidden_size, hidden_size, bias=False)
        self.target_vocab_projection = nn.Linear(hidden_size, n_tgt, bias=False)
        self.dropout = nn.Dropout(dropout_rate)

    def encode(self, source, lengths):
        """ source: (src_len, b), sorted by length """
        X = pack_padded_sequence(self.src_embed(source), lengths)
        enc_hiddens, (last_h, last_c) = self.encoder(X)
        enc_hiddens, _ = pad_packed_sequence(enc_hiddens)
        enc_hiddens = enc_hiddens.permute(1, 0, 2)                      # (b, src_len, 2h)
        init_h = self.h_projection(torch.cat((last_h[0], last_h[1]), 1))
        init_c = self.c_projection(torch.cat((last_c[0], last_c[1]), 1))
        return enc_hiddens, (init_h, init_c)

    def generate_sent_masks(self, enc_hiddens, lengths):
        """ 1 at the positions of pad tokens, 0 elsewhere """
        masks = torch.zeros(enc_hiddens.size(0), enc_hiddens.size(1), dtype=torch.bool)
        for e_id, src_len in enumerate(lengths):
            masks[e_id, src_len:] = 1
        return masks.to(enc_hiddens.device)

    def step(self, Ybar_t, dec_state, enc_hiddens, enc_hiddens_proj, enc_masks):
        """ one decoder step
        Ybar_t: (b, e + h), enc_hiddens: (b, src_len, 2h), enc_hiddens_proj: (b, src_len, h)
        """
        dec_state = self.decoder(Ybar_t, dec_state)
        dec_hidden, dec_cell = dec_state
        e_t = torch.bmm(enc_hiddens_proj, dec_hidden.unsqueeze(2)).squeeze(2)    # (b, src_len)

        # every sentence has at least one word, so no row is filled completely
        if enc_masks is not None:
            e_t = e_t.masked_fill(enc_masks, -float('inf'))

        alpha_t = F.softmax(e_t, dim=1)
        a_t = torch.bmm(alpha_t.unsqueeze(1), enc_hiddens).squeeze(1)            # (b, 2h)
        U_t = torch.cat((a_t, dec_hidden), dim=1)
        V_t = self.combined_output_projection(U_t)
        O_t = self.dropout(torch.tanh(V_t))
        return dec_state, O_t, alpha_t

    def forward(self, source, lengths: List[int], target):
        """ log-likelihood of every target sentence; target: (tgt_len, b) with <s> and </s> """
        enc_hiddens, dec_state = self.encode(source, lengths)
        enc_masks = self.generate_sent_masks(enc_hiddens, lengths)
        enc_hiddens_proj = self.att_projection(enc_hiddens)
        o_prev = torch.zeros(enc_hiddens.size(0), self.hidden_size, device=source.device)
        outs = []
        for Y_t in torch.split(self.tgt_embed(target[:-1]), 1):
            Ybar_t = torch.cat((Y_t.squeeze(0), o_prev), dim=1)
            dec_state, o_prev, _ = self.step(Ybar_t, dec_state, enc_hiddens, enc_hiddens_proj, enc_masks)
            outs.append(o_prev)
        P = F.log_softmax(self.target_vocab_projection(torch.stack(outs)), dim=-1)
        gold = torch.gather(P, index=target[1:].unsqueeze(-1), dim=-1).squeeze(-1)
        return (gold * (target[1:] != self.pad_id).float()).sum(dim=0)

    @torch.no_grad()
    def greedy(self, sent: List[int], bos: int, eos: int, max_len: int = 50) -> Tuple[List[int], torch.Tensor]:
        src = torch.tensor(sent).unsqueeze(1)
        enc_hiddens, dec_state = self.encode(src, [len(sent)])
        proj = self.att_projection(enc_hiddens)
        o_prev, y, out, alphas = torch.zeros(1, self.hidden_size), bos, [], []
        while y != eos and len(out) < max_len:
            Ybar = torch.cat((self.tgt_embed(torch.tensor([y])), o_prev), dim=1)
            dec_state, o_prev, alpha = self.step(Ybar, dec_state, enc_hiddens, proj, None)
            y = int(self.target_vocab_projection(o_prev).argmax())
            out.append(y)
            alphas.append(alpha[0])
        return out, torch.stack(alphas)
