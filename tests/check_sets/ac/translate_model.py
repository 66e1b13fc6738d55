import math
import torch
import torch.nn as nn


# de -> en translation model, homework-size. PAD = 0 everywhere.
PAD = 0


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, h, dropout=0.0):
        super().__init__()
        self.h = h
        self.d_k = d_model // h
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def split_heads(self, x):
        b, n, _ = x.shape
        return x.view(b, n, self.h, self.d_k).transpose(1, 2)

    def forward(self, query, key, value, mask):
        b, n, _ = query.shape
        q = self.split_heads(self.w_q(query))
        k = self.split_heads(self.w_k(key))
        v = self.split_heads(self.w_v(value))

        # (b, h, n, m)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        scores = scores + mask
        probs = self.dropout(scores.softmax(dim=-1))
        out = torch.matmul(probs, v)
        out = out.contiguous().view(b, n, self.h * self.d_k)
        return self.w_o(out)


class FFN(nn.Sequential):
    def __init__(self, d, ff):
        super().__init__(nn.Linear(d, ff), nn.ReLU(), nn.Linear(ff, d))


class EncLayer(nn.Module):
    def __init__(self, d, h, ff):
        super().__init__()
        self.attn, self.ffn = MultiHeadAttention(d, h), FFN(d, ff)
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, src_mask):
        x = self.ln1(x + self.attn(x, x, x, src_mask))
        return self.ln2(x + self.ffn(x))


class DecLayer(nn.Module):
    def __init__(self, d, h, ff):
        super().__init__()
        self.self_attn, self.cross_attn = MultiHeadAttention(d, h), MultiHeadAttention(d, h)
        self.ffn = FFN(d, ff)
        self.ln1, self.ln2, self.ln3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, y, mem, tgt_mask, src_mask):
        y = self.ln1(y + self.self_attn(y, y, y, tgt_mask))
        y = self.ln2(y + self.cross_attn(y, mem, mem, src_mask))
        return self.ln3(y + self.ffn(y))


class Translator(nn.Module):
    def __init__(self, n_src, n_tgt, d=32, h=4, ff=64, layers=2, max_len=128):
        super().__init__()
        self.d = d
        self.src_emb, self.tgt_emb = nn.Embedding(n_src, d), nn.Embedding(n_tgt, d)
        self.pos = nn.Embedding(max_len, d)
        self.enc = nn.ModuleList(EncLayer(d, h, ff) for _ in range(layers))
        self.dec = nn.ModuleList(DecLayer(d, h, ff) for _ in range(layers))
        self.out = nn.Linear(d, n_tgt)

    def make_masks(self, src, tgt):
        # 1 where attention is allowed, 0 on <pad> and on future words
        src_mask = (src != PAD)[:, None, None, :]
        n = tgt.size(1)
        causal = torch.tril(torch.ones(n, n, device=tgt.device)).bool()
        tgt_mask = (tgt != PAD)[:, None, None, :] & causal
        return src_mask, tgt_mask

    def embed(self, table, ids):
        pos = torch.arange(ids.size(1), device=ids.device)
        return table(ids) * math.sqrt(self.d) + self.pos(pos)

    def forward(self, src, tgt):
        src_mask, tgt_mask = self.make_masks(src, tgt)
        x = self.embed(self.src_emb, src)
        for layer in self.enc:
            x = layer(x, src_mask)
        y = self.embed(self.tgt_emb, tgt)
        for layer in self.dec:
            y = layer(y, x, tgt_mask, src_mask)
        return self.out(y)
