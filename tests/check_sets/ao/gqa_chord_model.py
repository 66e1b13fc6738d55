"""chord progression LM (jazz standards, iReal corpus). grouped query attention to keep the cache tiny
on the raspberry pi. layout everywhere: (batch, time, head, dim)"""
import torch
import torch.nn as nn
import torch.nn.functional as F

ROOTS = "C Db D Eb E F Gb G Ab A Bb B".split()
QUAL = "maj7 m7 7 m7b5 dim7 6 m6 sus".split()
VOCAB = ["<pad>", "<bos>", "|"] + [r + q for r in ROOTS for q in QUAL]
STOI = {s: i for i, s in enumerate(VOCAB)}


def encode_tune(tune):
    return [STOI["<bos>"]] + [STOI[c] for c in tune.split()]


class GroupedAttention(nn.Module):
    """n_heads query heads share n_kv key/value heads, head h reads kv head h // (n_heads // n_kv)"""

    def __init__(self, cfg):
        super().__init__()
        self.n_heads, self.n_kv = cfg["n_heads"], cfg["n_kv"]
        self.d = cfg["dim"] // self.n_heads
        self.wq = nn.Linear(cfg["dim"], self.n_heads * self.d, bias=False)
        self.wk = nn.Linear(cfg["dim"], self.n_kv * self.d, bias=False)
        self.wv = nn.Linear(cfg["dim"], self.n_kv * self.d, bias=False)
        self.wo = nn.Linear(self.n_heads * self.d, cfg["dim"], bias=False)

    def expand_kv(self, t):
        b, n, _, d = t.shape
        g = self.n_heads // self.n_kv
        return t.repeat_interleave(g, dim=1).view(b, n, self.n_heads, d)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.wq(x).view(b, n, self.n_heads, self.d)
        k = self.expand_kv(self.wk(x).view(b, n, self.n_kv, self.d))
        v = self.expand_kv(self.wv(x).view(b, n, self.n_kv, self.d))
        s = torch.einsum("bihd,bjhd->bhij", q, k) / self.d ** 0.5
        s = s + torch.full((n, n), float("-inf"), device=x.device).triu(1)
        y = torch.einsum("bhij,bjhd->bihd", F.softmax(s, -1), v)
        return self.wo(y.reshape(b, n, -1))


class ChordLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg["dim"]
        self.tok = nn.Embedding(len(VOCAB), d, padding_idx=0)
        self.beat = nn.Embedding(cfg["max_len"], d)
        self.att = nn.ModuleList(GroupedAttention(cfg) for _ in range(cfg["layers"]))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d)) for _ in range(cfg["layers"]))
        self.n1 = nn.ModuleList(nn.LayerNorm(d) for _ in range(cfg["layers"]))
        self.n2 = nn.ModuleList(nn.LayerNorm(d) for _ in range(cfg["layers"]))
        self.out = nn.Linear(d, len(VOCAB))

    def forward(self, ids):
        x = self.tok(ids) + self.beat.weight[: ids.size(1)]
        for a, m, n1, n2 in zip(self.att, self.mlp, self.n1, self.n2):
            x = x + a(n1(x))
            x = x + m(n2(x))
        return self.out(x)

    @torch.no_grad()
    def improvise(self, tune, bars=8, temp=0.8):
        ids = torch.tensor([encode_tune(tune)])
        while bars > 0:
            p = F.softmax(self(ids)[:, -1] / temp, -1)
            p[:, :2] = 0
            nxt = torch.multinomial(p, 1)
            bars -= int(VOCAB[int(nxt)] == "|")
            ids = torch.cat([ids, nxt], 1)
            if ids.size(1) >= self.beat.num_embeddings:
                break
        return " ".join(VOCAB[i] for i in ids[0].tolist()[1:])
