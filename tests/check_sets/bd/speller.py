# 语音识别: 带位置感知的加性注意力解码器 (Chorowski 2015)
# 编码器输出 enc: [B, T, E], 长度 enc_len: [B] (至少为 1)
import torch
import torch.nn as nn


class LocationAwareAttention(nn.Module):
    """e_{t} = v^T tanh(W s + V h_t + U f_t + b),  f = conv(上一步的权重)

    返回 (context [B, E], weights [B, T]); 填充帧的权重为 0.
    """

    def __init__(self, enc_dim, dec_dim, att_dim=32, n_filt=8, width=7):
        super().__init__()
        self.W = nn.Linear(dec_dim, att_dim)
        self.V = nn.Linear(enc_dim, att_dim, bias=False)
        self.U = nn.Linear(n_filt, att_dim, bias=False)
        self.conv = nn.Conv1d(1, n_filt, width, padding=width // 2, bias=False)
        self.v = nn.Linear(att_dim, 1, bias=False)
        self._keys = None

    def precompute(self, enc):
        # 每句话只算一次
        self._keys = self.V(enc)

    def forward(self, state, enc, enc_len, prev):
        f = self.conv(prev.unsqueeze(1)).transpose(1, 2)
        e = self.v(torch.tanh(self.W(state).unsqueeze(1) + self._keys + self.U(f))).squeeze(-1)
        t = torch.arange(enc.size(1), device=enc.device)
        e = e.masked_fill(t.unsqueeze(0) >= enc_len.unsqueeze(1), float('-inf'))
        w = torch.softmax(e, dim=1)
        ctx = torch.bmm(w.unsqueeze(1), enc).squeeze(1)
        return ctx, w


class Speller(nn.Module):
    def __init__(self, vocab, enc_dim=48, dec_dim=40, emb=24, sos=0):
        super().__init__()
        self.sos = sos
        self.emb = nn.Embedding(vocab, emb)
        self.cell = nn.GRUCell(emb + enc_dim, dec_dim)
        self.att = LocationAwareAttention(enc_dim, dec_dim)
        self.out = nn.Linear(dec_dim + enc_dim, vocab)
        self.h0 = nn.Parameter(torch.zeros(dec_dim))

    def initial(self, enc, enc_len):
        B, T, E = enc.shape
        h = self.h0.expand(B, -1)
        # 初始权重: 有效帧上的均匀分布
        m = (torch.arange(T, device=enc.device)[None] < enc_len[:, None]).to(enc.dtype)
        w = m / m.sum(1, keepdim=True)
        ctx = enc.new_zeros(B, E)
        return h, ctx, w

    def forward(self, enc, enc_len, targets):
        """teacher forcing. targets [B, U] -> logits [B, U, vocab], 对齐 [B, U, T]"""
        self.att.precompute(enc)
        h, ctx, w = self.initial(enc, enc_len)
        y = torch.full_like(targets[:, :1], self.sos)
        inputs = torch.cat([y, targets[:, :-1]], dim=1)
        logits, aligns = [], []
        for u in range(targets.size(1)):
            h = self.cell(torch.cat([self.emb(inputs[:, u]), ctx], dim=-1), h)
            ctx, w = self.att(h, enc, enc_len, w)
            logits.append(self.out(torch.cat([h, ctx], dim=-1)))
            aligns.append(w)
        return torch.stack(logits, 1), torch.stack(aligns, 1)

    @torch.no_grad()
    def greedy(self, enc, enc_len, eos=1, limit=50):
        self.att.precompute(enc)
        h, ctx, w = self.initial(enc, enc_len)
        tok = torch.full((enc.size(0),), self.sos, dtype=torch.long)
        hyp = []
        for _ in range(limit):
            h = self.cell(torch.cat([self.emb(tok), ctx], -1), h)
            ctx, w = self.att(h, enc, enc_len, w)
            tok = self.out(torch.cat([h, ctx], -1)).argmax(-1)
            hyp.append(tok)
            if bool((tok == eos).all()):
                break
        return torch.stack(hyp, 1)


if __name__ == '__main__':
    m = Speller(30)
    lo, al = m(torch.randn(2, 11, 48), torch.tensor([11, 6]), torch.randint(0, 30, (2, 5)))
    print(lo.shape, al.sum(-1))
