# -*- coding: utf-8 -*-
"""Чат-бот поддержки: GRU seq2seq с глобальным вниманием (Luong et al., 2015).

На каждом шаге декодера:
    score(h_t, h_s) = h_t^T W_a h_s          (general)
    a_t             = softmax(score)         (только по настоящим словам вопроса)
    c_t             = sum_s a_t(s) h_s
    h~_t            = tanh(W_c [c_t ; h_t])  вектор внимания
    p(y_t)          = softmax(W_s h~_t)
"""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, BOS, EOS = 0, 1, 2


class Encoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.rnn = nn.GRU(emb, hid // 2, batch_first=True, bidirectional=True)

    def forward(self, src, lens):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.emb(src), lens.cpu(), batch_first=True, enforce_sorted=False)
        out, h = self.rnn(packed)
        out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=src.shape[1])
        return out, torch.cat([h[0], h[1]], dim=-1)[None]


class GeneralScore(nn.Module):
    def __init__(self, hid):
        super().__init__()
        self.W_a = nn.Linear(hid, hid, bias=False)

    def precompute(self, memory):
        return self.W_a(memory)

    def forward(self, h, keys):
        """h [B, T, H], keys [B, S, H] -> [B, T, S]"""
        return torch.bmm(h, keys.transpose(1, 2))


class LuongDecoder(nn.Module):
    def __init__(self, vocab, emb, hid, p=0.2):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.rnn = nn.GRU(emb, hid, batch_first=True)
        self.score = GeneralScore(hid)
        self.W_c = nn.Linear(2 * hid, hid, bias=False)
        self.W_s = nn.Linear(hid, vocab)
        self.drop = nn.Dropout(p)

    def forward(self, y, state, memory, lens):
        """y [B, T], state [1, B, H], memory [B, S, H], lens [B] -> logits, state, weights [B, T, S]"""
        h, state = self.rnn(self.drop(self.emb(y)), state)
        e = self.score(h, self.score.precompute(memory))
        outside = torch.arange(memory.shape[1], device=y.device)[None] >= lens[:, None]
        e = e.masked_fill(outside[:, None], float("-inf"))
        a = F.softmax(e, dim=-1)
        c = torch.bmm(a, memory)
        att = self.W_c(torch.cat([c, h], dim=-1))
        return self.W_s(self.drop(att)), state, a


class ChatBot(nn.Module):
    def __init__(self, vocab, emb=32, hid=64):
        super().__init__()
        self.enc = Encoder(vocab, emb, hid)
        self.dec = LuongDecoder(vocab, emb, hid)

    def forward(self, src, lens, tgt):
        memory, h = self.enc(src, lens)
        logits, _, _ = self.dec(tgt[:, :-1], h, memory, lens)
        return F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD)

    @torch.no_grad()
    def answer(self, src, lens, max_len=20):
        self.eval()
        memory, h = self.enc(src, lens)
        y = torch.full((src.shape[0], 1), BOS)
        done = torch.zeros(src.shape[0], dtype=torch.bool)
        out, maps = [], []
        for _ in range(max_len):
            logits, h, a = self.dec(y, h, memory, lens)
            y = logits.argmax(-1)
            y[done] = PAD
            done |= y[:, 0] == EOS
            out.append(y)
            maps.append(a)
            if done.all():
                break
        return torch.cat(out, 1), torch.cat(maps, 1)


def make_batch(pairs):
    n, m = max(len(q) for q, _ in pairs), max(len(a) for _, a in pairs) + 2
    src = torch.full((len(pairs), n), PAD)
    tgt = torch.full((len(pairs), m), PAD)
    for i, (q, a) in enumerate(pairs):
        src[i, :len(q)] = torch.tensor(q)
        tgt[i, :len(a) + 2] = torch.tensor([BOS] + a + [EOS])
    return src, torch.tensor([len(q) for q, _ in pairs]), tgt


if __name__ == "__main__":
    random.seed(0)
    torch.manual_seed(0)
    pairs = []
    for _ in range(16):
        q = [random.randint(3, 39) for _ in range(random.randint(2, 8))]
        pairs.append((q, q[::-1]))
    bot = ChatBot(40)
    opt = torch.optim.Adam(bot.parameters(), 1e-3)
    src, lens, tgt = make_batch(pairs)
    for _ in range(5):
        opt.zero_grad()
        loss = bot(src, lens, tgt)
        loss.backward()
        opt.step()
    print(loss.item(), bot.answer(src, lens)[0].shape)
