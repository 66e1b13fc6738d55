"""Bahdanau 어텐션을 쓰는 GRU 디코더 (날짜 형식 변환 과제, 탐욕적 생성).

e_{t,s} = v . tanh(W_q h_{t-1} + W_k m_s),  a_t = softmax_s(e_t),  c_t = sum_s a_{t,s} m_s
h_t = GRU([emb(y_{t-1}); c_t], h_{t-1}),    logits_t = W_o [h_t; c_t]

메모리의 키 W_k m_s 는 문장마다 한 번만 계산해서 재사용한다.
"""
import torch
import torch.nn as nn


class DateDecoder(nn.Module):
    def __init__(self, vocab, emb, hid, mem, att):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.cell = nn.GRUCell(emb + mem, hid)
        self.wq = nn.Linear(hid, att, bias=False)
        self.wk = nn.Linear(mem, att, bias=False)
        self.score = nn.Linear(att, 1, bias=False)
        self.proj = nn.Linear(hid + mem, vocab)

    def look(self, h, keys, memory, src_len):
        """h (B, hid); keys (B, S, att); memory (B, S, mem); src_len (B,), 1 이상.
        src_len[b] 번째부터의 위치는 패딩이므로 보지 않는다.  -> 문맥 (B, mem), 가중치 (B, S)"""
        e = self.score(torch.tanh(self.wq(h).unsqueeze(1) + keys)).squeeze(-1)
        pad = torch.arange(memory.size(1)).unsqueeze(0) >= src_len.unsqueeze(1)
        a = torch.softmax(e.masked_fill(pad, float("-inf")), dim=1)
        return torch.bmm(a.unsqueeze(1), memory).squeeze(1), a

    def forward(self, memory, src_len, h0, y):
        """교사 강요: memory (B, S, mem), h0 (B, hid), y (B, T) 입력 토큰.
        -> logits (B, T, vocab), 가중치 (B, T, S)"""
        keys = self.wk(memory)
        h, outs, maps = h0, [], []
        for t in range(y.size(1)):
            c, a = self.look(h, keys, memory, src_len)
            h = self.cell(torch.cat([self.emb(y[:, t]), c], dim=-1), h)
            outs.append(self.proj(torch.cat([h, c], dim=-1)))
            maps.append(a)
        return torch.stack(outs, 1), torch.stack(maps, 1)

    @torch.no_grad()
    def greedy(self, memory, src_len, h0, bos, steps):
        """(B, steps) 생성된 토큰."""
        keys = self.wk(memory)
        y = torch.full((memory.size(0),), bos, dtype=torch.long)
        h, got = h0, []
        for _ in range(steps):
            c, _ = self.look(h, keys, memory, src_len)
            h = self.cell(torch.cat([self.emb(y), c], dim=-1), h)
            y = self.proj(torch.cat([h, c], dim=-1)).argmax(-1)
            got.append(y)
        return torch.stack(got, 1)
