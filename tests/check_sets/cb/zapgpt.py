"""zapgpt - a little GPT trained on my exported WhatsApp groups.

char level, grouped kv heads to keep the cache small on the phone.
kv cache layout is (batch, time, kv_heads, head_dim), no fancy stuff.
"""
import torch, math
import torch.nn as nn
import torch.nn.functional as F

class GroupedAttention(nn.Module):
    """causal attention, n_head query heads, n_kv kv heads.
    query heads 0..r-1 use kv head 0, r..2r-1 use kv head 1, ... (r = n_head/n_kv)"""
    def __init__(self, d_model, n_head, n_kv):
        super().__init__()
        self.n_head, self.n_kv, self.hd = n_head, n_kv, d_model//n_head
        self.rep = n_head//n_kv
        self.q = nn.Linear(d_model, n_head*self.hd, bias=False)
        self.k = nn.Linear(d_model, n_kv*self.hd, bias=False)
        self.v = nn.Linear(d_model, n_kv*self.hd, bias=False)
        self.o = nn.Linear(n_head*self.hd, d_model, bias=False)

    def expand_kv(self, t):
        b, s = t.shape[:2]
        return t.repeat(1, self.rep, 1, 1).view(b, s, self.n_head, self.hd)

    def forward(self, x, cache=None):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, self.n_head, self.hd)
        k = self.k(x).view(b, t, self.n_kv, self.hd)
        v = self.v(x).view(b, t, self.n_kv, self.hd)
        if cache is not None:
            k = torch.cat((cache[0], k), dim=1)
            v = torch.cat((cache[1], v), dim=1)
        cache = (k, v)
        k, v = self.expand_kv(k), self.expand_kv(v)
        s = k.shape[1]
        att = torch.einsum('bthd,bshd->bhts', q, k)/math.sqrt(self.hd)
        future = torch.ones(t, s, dtype=torch.bool, device=x.device).triu(s-t+1)
        att = att.masked_fill(future, float('-inf')).softmax(-1)
        y = torch.einsum('bhts,bshd->bthd', att, v).reshape(b, t, -1)
        return self.o(y), cache

class Layer(nn.Module):
    def __init__(self, d_model, n_head, n_kv):
        super().__init__()
        self.att = GroupedAttention(d_model, n_head, n_kv)
        self.mlp = nn.Sequential(nn.Linear(d_model, 4*d_model), nn.GELU(), nn.Linear(4*d_model, d_model))
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, cache=None):
        a, cache = self.att(self.n1(x), cache)
        x = x+a
        return x+self.mlp(self.n2(x)), cache

class ZapGPT(nn.Module):
    def __init__(self, vocab, d_model=64, n_head=8, n_kv=2, n_layer=2, ctx=256):
        super().__init__()
        self.wte = nn.Embedding(vocab, d_model)
        self.wpe = nn.Embedding(ctx, d_model)
        self.layers = nn.ModuleList([Layer(d_model, n_head, n_kv) for _ in range(n_layer)])
        self.lnf = nn.LayerNorm(d_model)

    def forward(self, ids, caches=None):
        past = 0 if caches is None else caches[0][0].shape[1]
        x = self.wte(ids)+self.wpe(torch.arange(past, past+ids.shape[1], device=ids.device))
        out = []
        for i, layer in enumerate(self.layers):
            x, c = layer(x, None if caches is None else caches[i])
            out.append(c)
        return self.lnf(x)@self.wte.weight.t(), out

    @torch.no_grad()
    def reply(self, ids, n, temp=1.0):
        logits, caches = self(ids)
        for _ in range(n):
            p = F.softmax(logits[:, -1]/temp, dim=-1)
            nxt = torch.multinomial(p, 1)
            ids = torch.cat((ids, nxt), dim=1)
            logits, caches = self(nxt, caches)
        return ids

if __name__ == '__main__':
    g = ZapGPT(90)
    print(g.reply(torch.randint(0, 90, (1, 6)), 10))
