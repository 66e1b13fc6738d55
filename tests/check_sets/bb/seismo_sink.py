# Streaming phase picker: attention with a learned sink and a short memory.
# (日本語) 地震波の連続記録用。窓 W は自分自身を含めて W サンプル。
import torch
import torch.nn as nn

HYP = dict(dim=32, n_q=8, n_kv=2, window=4)


class SinkWindowAttention(nn.Module):
    """
    因果的スライディングウィンドウ + 学習可能なシンク (gpt-oss 方式)

    - 位置 i は i-window+1 .. i を見る (自分を含めて window 個)
    - 各ヘッドのシンクは softmax の分母だけに加わる。従って行の和は 1 未満
    - クエリヘッド h は KV ヘッド h // (n_q // n_kv) を使う
    """

    def __init__(self, dim, n_q, n_kv, window):
        super().__init__()
        self.nq, self.nkv, self.hd, self.win = n_q, n_kv, dim // n_q, window
        self.qkv = nn.Linear(dim, (n_q + 2 * n_kv) * self.hd)
        self.sinks = nn.Parameter(torch.zeros(n_q))
        self.o = nn.Linear(n_q * self.hd, dim)

    def band(self, T, device):
        i = torch.arange(T, device=device)
        dist = i[:, None] - i[None, :]
        return (dist >= 0) & (dist < self.win)

    def forward(self, x):
        B, T, _ = x.shape
        g = self.nq // self.nkv
        q, k, v = self.qkv(x).split([self.nq * self.hd, self.nkv * self.hd, self.nkv * self.hd], -1)
        q = q.view(B, T, self.nkv, g, self.hd)
        k = k.view(B, T, self.nkv, self.hd)
        v = v.view(B, T, self.nkv, self.hd)

        qk = torch.einsum("btngd,bsnd->bngts", q, k) * self.hd ** -0.5
        qk = qk.masked_fill(~self.band(T, x.device), float("-inf"))
        sink = self.sinks.view(1, self.nkv, g, 1, 1).expand(B, -1, -1, T, 1)
        w = torch.cat([qk, sink], dim=-1).softmax(dim=-1)
        w = w[..., :-1]  # シンクの列は値を持たない
        out = torch.einsum("bngts,bsnd->btngd", w, v)
        return self.o(out.reshape(B, T, -1))


class Picker(nn.Module):
    """3成分波形 -> P/S/雑音 の確率"""

    def __init__(self, hyp=HYP):
        super().__init__()
        d = hyp["dim"]
        self.emb = nn.Conv1d(3, d, 5, padding=4)
        self.att = SinkWindowAttention(d, hyp["n_q"], hyp["n_kv"], hyp["window"])
        self.ln = nn.LayerNorm(d)
        self.head = nn.Linear(d, 3)

    def forward(self, wave):
        h = self.emb(wave)[..., : wave.shape[-1]].transpose(1, 2)
        h = h + self.att(self.ln(h))
        return self.head(h).softmax(-1)


def pick_times(prob, rate=100.0, thr=0.5):
    """P波の確率が初めて thr を超える時刻 [s]"""
    hit = prob[..., 0] > thr
    first = hit.float().argmax(-1)
    return torch.where(hit.any(-1), first / rate, torch.full_like(first, -1, dtype=torch.float))


if __name__ == "__main__":
    print(Picker()(torch.randn(2, 3, 50)).shape)
