"""俳句ジェネレータ（文字単位）

小さな Llama 風モデル。生成時は KV キャッシュを使って 1 文字ずつ進める。
キャッシュを使っても使わなくても出力は同じ。
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rope_table(dim, max_len=512, base=10000.0):
    """cos, sin: (max_len, dim/2)"""
    f = base ** (-torch.arange(0, dim, 2).float() / dim)
    a = torch.outer(torch.arange(max_len).float(), f)
    return a.cos(), a.sin()


def rope(x, cos, sin):
    # 前半と後半を組にする (GPT-NeoX 方式)
    h = x.shape[-1] // 2
    x1, x2 = x[..., :h], x[..., h:]
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)


class CachedAttention(nn.Module):
    """因果的自己注意。GQA: 連続する n_head/n_kv 個のクエリヘッドが同じ KV を共有。

    forward(x, cache): x (B, L, C)。cache は {} から始まる辞書で、回転済みの k と
    v を保持する。None ならキャッシュなし。
    """

    def __init__(self, dim, n_head, n_kv):
        super().__init__()
        self.n_head, self.n_kv, self.hd = n_head, n_kv, dim // n_head
        self.wq = nn.Linear(dim, n_head * self.hd, bias=False)
        self.wk = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.wv = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.wo = nn.Linear(n_head * self.hd, dim, bias=False)
        cos, sin = rope_table(self.hd)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x, cache=None):
        B, L, _ = x.shape
        q = self.wq(x).view(B, L, self.n_head, self.hd).transpose(1, 2)
        k = self.wk(x).view(B, L, self.n_kv, self.hd).transpose(1, 2)
        v = self.wv(x).view(B, L, self.n_kv, self.hd).transpose(1, 2)

        cos, sin = self.cos[:L], self.sin[:L]
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        if cache is not None:
            if "k" in cache:
                k = torch.cat([cache["k"], k], dim=2)
                v = torch.cat([cache["v"], v], dim=2)
            cache["k"], cache["v"] = k, v

        S = k.shape[2]
        rep = self.n_head // self.n_kv
        k = k.repeat_interleave(rep, dim=1)
        v = v.repeat_interleave(rep, dim=1)
        # 右下揃えの因果マスク
        mask = torch.ones(L, S, dtype=torch.bool, device=x.device).tril(S - L)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(y.transpose(1, 2).reshape(B, L, -1))


class Haiku(nn.Module):
    def __init__(self, vocab, dim=64, n_head=4, n_kv=2, layers=3):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.att = nn.ModuleList(CachedAttention(dim, n_head, n_kv) for _ in range(layers))
        self.ff = nn.ModuleList(nn.Sequential(nn.RMSNorm(dim), nn.Linear(dim, 3 * dim), nn.SiLU(),
                                              nn.Linear(3 * dim, dim)) for _ in range(layers))
        self.norm = nn.ModuleList(nn.RMSNorm(dim) for _ in range(layers))

    def forward(self, ids, caches=None):
        x = self.emb(ids)
        for i, (a, f) in enumerate(zip(self.att, self.ff)):
            x = x + a(self.norm[i](x), None if caches is None else caches[i])
            x = x + f(x)
        return x @ self.emb.weight.T

    @torch.no_grad()
    def generate(self, ids, n=17, temperature=0.8):
        caches = [{} for _ in self.att]
        logits = self(ids, caches)
        for _ in range(n):
            p = (logits[:, -1] / temperature).softmax(-1)
            nxt = torch.multinomial(p, 1)
            ids = torch.cat([ids, nxt], dim=1)
            logits = self(nxt, caches)
        return ids


if __name__ == "__main__":
    print(Haiku(80).eval().generate(torch.tensor([[1, 2, 3]])))
