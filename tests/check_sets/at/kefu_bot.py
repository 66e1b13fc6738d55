# -*- coding: utf-8 -*-
"""客服聊天机器人 seq2seq (GRU + attention)。batch first。"""
import random
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, SOS, EOS, UNK = 0, 1, 2, 3


class 词表:
    def __init__(self):
        self.w2i = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3}
        self.i2w = list(self.w2i)

    def add(self, sent):
        for w in sent.split():
            if w not in self.w2i:
                self.w2i[w] = len(self.i2w)
                self.i2w.append(w)

    def ids(self, sent):
        return [self.w2i.get(w, UNK) for w in sent.split()] + [EOS]


class Encoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.gru = nn.GRU(emb, hid, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hid, hid)

    def forward(self, src):
        out, h = self.gru(self.emb(src))
        return out, torch.tanh(self.fc(torch.cat([h[0], h[1]], dim=1)))


class ConcatAttention(nn.Module):
    """Bahdanau attention 打分: v^T tanh(W[s; h])。
    src_mask: True 为真实词, False 为填充。返回 [B, 1, S]，每个解码步对源端 S 个词归一化。"""

    def __init__(self, hid, enc_dim):
        super().__init__()
        self.attn = nn.Linear(hid + enc_dim, hid)
        self.v = nn.Linear(hid, 1, bias=False)

    def forward(self, state, enc_out, src_mask):
        S = enc_out.size(1)
        s = state.unsqueeze(1).expand(-1, S, -1)
        energy = self.attn(torch.cat([s, enc_out], dim=2))
        score = self.v(energy).transpose(1, 2)                  # [B, 1, S]
        score = score.masked_fill(src_mask.unsqueeze(1), -1e9)
        return F.softmax(score, dim=2)


class Decoder(nn.Module):
    def __init__(self, vocab, emb, hid, enc_dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.att = ConcatAttention(hid, enc_dim)
        self.gru = nn.GRU(emb + enc_dim, hid, batch_first=True)
        self.out = nn.Linear(hid + enc_dim + emb, vocab)

    def step(self, y, state, enc_out, src_mask):
        e = self.emb(y).unsqueeze(1)
        w = self.att(state, enc_out, src_mask)
        ctx = torch.bmm(w, enc_out)
        o, h = self.gru(torch.cat([e, ctx], 2), state.unsqueeze(0))
        return self.out(torch.cat([o, ctx, e], 2)).squeeze(1), h[0], w


class KefuBot(nn.Module):
    def __init__(self, vocab, emb=64, hid=64):
        super().__init__()
        self.encoder = Encoder(vocab, emb, hid)
        self.decoder = Decoder(vocab, emb, hid, 2 * hid)

    def forward(self, src, tgt, teacher=0.5):
        enc, h = self.encoder(src)
        mask = src != PAD
        y, logits = tgt[:, 0], []
        for t in range(1, tgt.size(1)):
            o, h, _ = self.decoder.step(y, h, enc, mask)
            logits.append(o)
            y = tgt[:, t] if random.random() < teacher else o.argmax(-1)
        return torch.stack(logits, 1)

    @torch.no_grad()
    def reply(self, ids, n=30):
        src = torch.tensor([ids])
        enc, h = self.encoder(src)
        y, out = torch.tensor([SOS]), []
        for _ in range(n):
            o, h, _ = self.decoder.step(y, h, enc, src != PAD)
            y = o.argmax(-1)
            if y.item() == EOS:
                break
            out.append(y.item())
        return out
