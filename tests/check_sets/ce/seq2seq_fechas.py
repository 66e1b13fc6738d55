"""日期格式转换的 seq2seq 作业:"3 de mayo de 2014" -> "2014-05-03"。

编码器:双向 LSTM;解码器:LSTM(teacher forcing,一次得到所有状态);
然后做 Luong 的 "general" 注意力:

    score(h_t, h_s) = h_t^T W h_s
    a_t(s) = 对源位置 s 做 softmax
    h~_t = tanh(W_c [c_t; h_t])

源序列统一为固定长度(数据生成时补空格,空格是普通字符),所以没有填充掩码。
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, n_src, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(n_src, emb)
        self.rnn = nn.LSTM(emb, hid, batch_first=True, bidirectional=True)
        self.bridge_h = nn.Linear(2 * hid, hid)
        self.bridge_c = nn.Linear(2 * hid, hid)

    def forward(self, src):
        out, (h, c) = self.rnn(self.emb(src))
        # 拼接两个方向的最后状态
        h = torch.tanh(self.bridge_h(torch.cat([h[0], h[1]], dim=-1)))
        c = self.bridge_c(torch.cat([c[0], c[1]], dim=-1))
        return out, (h.unsqueeze(0), c.unsqueeze(0))


class LuongAttention(nn.Module):
    def __init__(self, dec_dim, enc_dim):
        super().__init__()
        self.W = nn.Linear(enc_dim, dec_dim, bias=False)
        self.W_c = nn.Linear(enc_dim + dec_dim, dec_dim, bias=False)

    def forward(self, dec_states, enc_states):
        # dec_states: (B, T, H)   enc_states: (B, S, E)
        score = torch.bmm(dec_states, self.W(enc_states).transpose(1, 2))
        attn = F.softmax(score, dim=1)
        context = torch.bmm(attn, enc_states)                 # (B, T, E)
        out = torch.tanh(self.W_c(torch.cat([context, dec_states], dim=-1)))
        return out, attn


class DateConverter(nn.Module):
    def __init__(self, n_src=40, n_tgt=14, emb=16, hid=24):
        super().__init__()
        self.encoder = Encoder(n_src, emb, hid)
        self.tgt_emb = nn.Embedding(n_tgt, emb)
        self.decoder = nn.LSTM(emb, hid, batch_first=True)
        self.attention = LuongAttention(hid, 2 * hid)
        self.out = nn.Linear(hid, n_tgt)

    def forward(self, src, tgt_in):
        """src (B, S), tgt_in (B, T) 以 <s> 开头 -> logits (B, T, n_tgt), attn (B, T, S)。"""
        enc_states, state = self.encoder(src)
        dec_states, _ = self.decoder(self.tgt_emb(tgt_in), state)
        mixed, attn = self.attention(dec_states, enc_states)
        return self.out(mixed), attn


def loss_fn(model, src, tgt):
    logits, _ = model(src, tgt[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten())


if __name__ == "__main__":
    torch.manual_seed(2)
    model = DateConverter()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    src, tgt = torch.randint(0, 40, (16, 20)), torch.randint(0, 14, (16, 11))
    for step in range(5):
        loss = loss_fn(model, src, tgt)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 3))
