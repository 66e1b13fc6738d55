import torch
import torch.nn as nn
import torch.nn.functional as F

# tiny GPT for the chat demo. no config class, everything is a keyword argument


class Rotary(nn.Module):
    def __init__(self, dim, max_len=2048, base=10000):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        t = torch.arange(max_len).float()
        freqs = torch.einsum("i,j->ij", t, inv_freq)
        freqs = freqs.repeat_interleave(2, dim=-1)
        self.register_buffer("cos", freqs.cos()[None, None], persistent=False)
        self.register_buffer("sin", freqs.sin()[None, None], persistent=False)

    def rotate(self, x):
        x1, x2 = x.chunk(2, dim=-1)
        return torch.cat((-x2, x1), dim=-1)

    def forward(self, q, k, offset=0):
        n = q.shape[-2]
        cos = self.cos[:, :, offset:offset + n].to(q.dtype)
        sin = self.sin[:, :, offset:offset + n].to(q.dtype)
        return q * cos + self.rotate(q) * sin, k * cos + self.rotate(k) * sin


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, dropout=0.0):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=False)
        self.rotary = Rotary(n_embd // n_head)
        self.dropout = dropout

    def forward(self, x, kv=None):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        past = 0 if kv is None else kv[0].size(2)
        q, k = self.rotary(q, k, past)
        if past:
            k = torch.cat((kv[0], k), dim=2)
            v = torch.cat((kv[1], v), dim=2)
        mask = torch.ones(T, past + T, dtype=torch.bool, device=x.device).tril(past)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y), (k, v)


class MLP(nn.Module):
    def __init__(self, n_embd):
        super().__init__()
        self.c_fc = nn.Linear(n_embd, 4 * n_embd, bias=False)
        self.c_proj = nn.Linear(4 * n_embd, n_embd, bias=False)

    def forward(self, x):
        return self.c_proj(F.relu(self.c_fc(x)).square())


class Block(nn.Module):
    def __init__(self, n_embd, n_head, dropout):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention(n_embd, n_head, dropout)
        self.mlp = MLP(n_embd)

    def forward(self, x, kv=None):
        a, kv = self.attn(self.ln_1(x), kv)
        x = x + a
        return x + self.mlp(self.ln_2(x)), kv


class TinyChat(nn.Module):
    def __init__(self, vocab=256, n_embd=64, n_head=4, n_layer=2, dropout=0.0):
        super().__init__()
        self.wte = nn.Embedding(vocab, n_embd)
        self.h = nn.ModuleList([Block(n_embd, n_head, dropout) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab, bias=False)

    def forward(self, idx, kvs=None, targets=None):
        x = self.wte(idx)
        kvs = kvs or [None] * len(self.h)
        new = []
        for blk, kv in zip(self.h, kvs):
            x, kv = blk(x, kv)
            new.append(kv)
        logits = self.lm_head(self.ln_f(x))
        if targets is not None:
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten()), new
        return logits, new

    @torch.no_grad()
    def generate(self, idx, n, temperature=1.0):
        kvs, cur = None, idx
        for _ in range(n):
            logits, kvs = self(cur, kvs)
            p = F.softmax(logits[:, -1] / temperature, dim=-1)
            cur = torch.multinomial(p, 1)
            idx = torch.cat((idx, cur), dim=1)
        return idx
