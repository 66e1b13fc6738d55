# -*- coding: utf-8 -*-
# 한영 번역 실습 (seq2seq + 바다나우 어텐션). Bahdanau et al. 2015.
import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

PAD, SOS, EOS = 0, 1, 2


class Inkodeo(nn.Module):
    """인코더: 양방향 GRU"""

    def __init__(self, dan_eo_su, cha_won):
        super().__init__()
        self.imbeding = nn.Embedding(dan_eo_su, cha_won, padding_idx=PAD)
        self.gru = nn.GRU(cha_won, cha_won, bidirectional=True, batch_first=True)
        self.hapchigi = nn.Linear(2 * cha_won, cha_won)

    def forward(self, munjang, giri):
        x = self.imbeding(munjang)
        p = pack_padded_sequence(x, giri.cpu(), batch_first=True, enforce_sorted=False)
        chullyeok, h = self.gru(p)
        chullyeok, _ = pad_packed_sequence(chullyeok, batch_first=True, total_length=munjang.size(1))
        h = torch.tanh(self.hapchigi(torch.cat([h[0], h[1]], dim=1)))
        return chullyeok, h


class JipjungDekodeo(nn.Module):
    """디코더 한 단계.  점수 = v^T tanh(Wa s + Ua h_j),  <pad> 위치는 보지 않음"""

    def __init__(self, dan_eo_su, cha_won):
        super().__init__()
        self.imbeding = nn.Embedding(dan_eo_su, cha_won, padding_idx=PAD)
        self.Wa = nn.Linear(cha_won, cha_won, bias=False)
        self.Ua = nn.Linear(2 * cha_won, cha_won)
        self.va = nn.Linear(cha_won, 1, bias=False)
        self.gru = nn.GRUCell(cha_won + 2 * cha_won, cha_won)
        self.malhagi = nn.Linear(cha_won + 2 * cha_won, dan_eo_su)

    def forward(self, ijeon, s, h_all, pad_wichi):
        """ijeon (B,) 이전 단어, s (B,D), h_all (B,T,2D), pad_wichi (B,T) True = <pad>"""
        jeomsu = self.va(torch.tanh(self.Wa(s)[:, None] + self.Ua(h_all)))[..., 0]
        jeomsu = jeomsu.masked_fill(pad_wichi, float("-inf"))
        gajungchi = torch.softmax(jeomsu, dim=-1)
        munmaek = (gajungchi[:, :, None] * h_all).sum(1)
        s = self.gru(torch.cat([self.imbeding(ijeon), munmaek], 1), s)
        return self.malhagi(torch.cat([s, munmaek], 1)), s, gajungchi


class Beonyeokgi(nn.Module):
    def __init__(self, n_src, n_tgt, cha_won=32):
        super().__init__()
        self.inko = Inkodeo(n_src, cha_won)
        self.deko = JipjungDekodeo(n_tgt, cha_won)

    def forward(self, src, giri, tgt, gyosa=1.0):
        h_all, s = self.inko(src, giri)
        ijeon = torch.full((src.size(0),), SOS, dtype=torch.long, device=src.device)
        moeum = []
        for t in range(tgt.size(1)):
            y, s, _ = self.deko(ijeon, s, h_all, src == PAD)
            moeum.append(y)
            ijeon = tgt[:, t] if random.random() < gyosa else y.argmax(-1)
        return torch.stack(moeum, 1)
