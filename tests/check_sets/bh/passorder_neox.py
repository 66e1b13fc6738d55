"""Phase-ordering model: predicts the next LLVM pass from the IR token stream.

We fine-tuned a GPT-NeoX trunk; this file is the dependency-free inference copy.
Fused projection of the checkpoint ("query_key_value", out features 3*H*D):
the rows are grouped BY HEAD, i.e. for head 0 first its q (D rows), then its k,
then its v, then head 1, ...
"""
import json
import math
import pathlib
from types import SimpleNamespace

import torch
from torch import nn

PASSES = ["mem2reg", "instcombine", "simplifycfg", "gvn", "licm", "loop-unroll", "sroa"]

DEFAULTS = {
    "hidden_size": 96,
    "num_attention_heads": 6,
    "rotary_pct": 0.5,
    "rotary_emb_base": 10000,
    "num_layers": 2,
}


def load_config(path=None, **over):
    raw = dict(DEFAULTS)
    if path is not None:
        raw.update(json.loads(pathlib.Path(path).read_text()))
    raw.update(over)
    return SimpleNamespace(**raw)


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class NeoXAttention(nn.Module):
    """Causal self-attention with partial rotary embedding (half-split layout).

    Parameter names equal those of the checkpoint, so load_state_dict works.
    """

    def __init__(self, cfg):
        super().__init__()
        self.H = cfg.num_attention_heads
        self.D = cfg.hidden_size // self.H
        self.rot = int(self.D * cfg.rotary_pct)
        self.query_key_value = nn.Linear(cfg.hidden_size, 3 * cfg.hidden_size)
        self.dense = nn.Linear(cfg.hidden_size, cfg.hidden_size)
        inv = cfg.rotary_emb_base ** (-torch.arange(0, self.rot, 2).float() / self.rot)
        self.register_buffer("inv_freq", inv, persistent=False)

    def _rope(self, x, cos, sin):
        r, rest = x[..., : self.rot], x[..., self.rot:]
        return torch.cat((r * cos + rotate_half(r) * sin, rest), dim=-1)

    def forward(self, hidden):
        B, L, C = hidden.shape
        qkv = self.query_key_value(hidden)
        qkv = qkv.view(B, L, 3, self.H, self.D)
        q, k, v = (t.transpose(1, 2) for t in qkv.unbind(dim=2))

        t = torch.arange(L, device=hidden.device).float()
        ang = torch.outer(t, self.inv_freq)
        ang = torch.cat((ang, ang), dim=-1)
        cos, sin = ang.cos().to(q), ang.sin().to(q)
        q, k = self._rope(q, cos, sin), self._rope(k, cos, sin)

        s = q @ k.transpose(-2, -1) / math.sqrt(self.D)
        causal = torch.ones(L, L, dtype=torch.bool, device=s.device).tril()
        s = s.masked_fill(~causal, torch.finfo(s.dtype).min)
        p = s.float().softmax(-1).to(s.dtype)
        return self.dense((p @ v).transpose(1, 2).reshape(B, L, C))


class PassOrderModel(nn.Module):
    def __init__(self, cfg, vocab=512):
        super().__init__()
        c = cfg.hidden_size
        self.embed_in = nn.Embedding(vocab, c)
        self.attn = nn.ModuleList(NeoXAttention(cfg) for _ in range(cfg.num_layers))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))
                                 for _ in range(cfg.num_layers))
        self.n1 = nn.ModuleList(nn.LayerNorm(c) for _ in range(cfg.num_layers))
        self.n2 = nn.ModuleList(nn.LayerNorm(c) for _ in range(cfg.num_layers))
        self.head = nn.Linear(c, len(PASSES))

    def forward(self, tokens):
        x = self.embed_in(tokens)
        for a, m, n1, n2 in zip(self.attn, self.mlp, self.n1, self.n2):
            x = x + a(n1(x)) + m(n2(x))          # parallel residual
        return self.head(x[:, -1])


if __name__ == "__main__":
    net = PassOrderModel(load_config()).eval()
    print(PASSES[int(net(torch.randint(0, 512, (1, 40))).argmax())])
