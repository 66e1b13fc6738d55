"""whisper in one file. only what you need to transcribe 30 seconds.

state dict keys follow the openai names, so model.load_state_dict(ckpt["model_state_dict"]) works.
"""
from dataclasses import dataclass
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Dims:
    n_mels: int = 80
    n_audio_ctx: int = 1500
    n_audio_state: int = 384
    n_audio_head: int = 6
    n_audio_layer: int = 4
    n_vocab: int = 51865
    n_text_ctx: int = 448
    n_text_state: int = 384
    n_text_head: int = 6
    n_text_layer: int = 4


def sinusoids(length, channels, max_timescale=10000):
    inc = math.log(max_timescale) / (channels // 2 - 1)
    inv = torch.exp(-inc * torch.arange(channels // 2))
    t = torch.arange(length)[:, None] * inv[None, :]
    return torch.cat([t.sin(), t.cos()], dim=1)


class MHA(nn.Module):
    def __init__(self, n_state, n_head):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def forward(self, x, xa=None, mask=None, cache=None):
        """x text or audio states; xa encoder states for cross attention.

        cache: a dict kept by the caller between steps of one utterance, or None.
        mask: [n_ctx, n_ctx] of 0 and -inf, rows are absolute positions.
        """
        q = self.query(x)
        if xa is not None and cache is not None and "k" in cache:
            k, v = cache["k"], cache["v"]
        else:
            src = x if xa is None else xa
            k, v = self.key(src), self.value(src)
            if cache is not None:
                if xa is None and "k" in cache:
                    k = torch.cat([cache["k"], k], dim=1)
                    v = torch.cat([cache["v"], v], dim=1)
                cache["k"], cache["v"] = k, v
        nb, nq, ns = q.shape
        nk = k.shape[1]
        s = (ns // self.n_head) ** -0.25
        q = q.view(nb, nq, self.n_head, -1).permute(0, 2, 1, 3) * s
        k = k.view(nb, nk, self.n_head, -1).permute(0, 2, 3, 1) * s
        v = v.view(nb, nk, self.n_head, -1).permute(0, 2, 1, 3)
        qk = q @ k
        if mask is not None:
            qk = qk + mask[nk - nq:nk, :nk]
        w = F.softmax(qk.float(), dim=-1).to(q.dtype)
        return self.out((w @ v).permute(0, 2, 1, 3).flatten(start_dim=2))


class Block(nn.Module):
    def __init__(self, n_state, n_head, cross=False):
        super().__init__()
        self.attn = MHA(n_state, n_head)
        self.attn_ln = nn.LayerNorm(n_state)
        self.cross_attn = MHA(n_state, n_head) if cross else None
        self.cross_attn_ln = nn.LayerNorm(n_state) if cross else None
        self.mlp = nn.Sequential(nn.Linear(n_state, 4 * n_state), nn.GELU(), nn.Linear(4 * n_state, n_state))
        self.mlp_ln = nn.LayerNorm(n_state)

    def forward(self, x, xa=None, mask=None, cache=(None, None)):
        x = x + self.attn(self.attn_ln(x), mask=mask, cache=cache[0])
        if self.cross_attn is not None:
            x = x + self.cross_attn(self.cross_attn_ln(x), xa, cache=cache[1])
        return x + self.mlp(self.mlp_ln(x))


class AudioEncoder(nn.Module):
    def __init__(self, d: Dims):
        super().__init__()
        self.conv1 = nn.Conv1d(d.n_mels, d.n_audio_state, 3, padding=1)
        self.conv2 = nn.Conv1d(d.n_audio_state, d.n_audio_state, 3, stride=2, padding=1)
        self.register_buffer("positional_embedding", sinusoids(d.n_audio_ctx, d.n_audio_state))
        self.blocks = nn.ModuleList([Block(d.n_audio_state, d.n_audio_head) for _ in range(d.n_audio_layer)])
        self.ln_post = nn.LayerNorm(d.n_audio_state)

    def forward(self, mel):
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).permute(0, 2, 1)
        x = x + self.positional_embedding[:x.shape[1]]
        for b in self.blocks:
            x = b(x)
        return self.ln_post(x)


class TextDecoder(nn.Module):
    def __init__(self, d: Dims):
        super().__init__()
        self.token_embedding = nn.Embedding(d.n_vocab, d.n_text_state)
        self.positional_embedding = nn.Parameter(torch.zeros(d.n_text_ctx, d.n_text_state))
        self.blocks = nn.ModuleList([Block(d.n_text_state, d.n_text_head, True) for _ in range(d.n_text_layer)])
        self.ln = nn.LayerNorm(d.n_text_state)
        m = torch.full((d.n_text_ctx, d.n_text_ctx), float("-inf")).triu_(1)
        self.register_buffer("mask", m, persistent=False)

    def new_cache(self):
        return [({}, {}) for _ in self.blocks]

    def forward(self, tok, xa, cache=None):
        cache = cache if cache is not None else [(None, None)] * len(self.blocks)
        past = cache[0][0]["k"].shape[1] if cache[0][0] else 0
        x = self.token_embedding(tok) + self.positional_embedding[past:past + tok.shape[-1]]
        for b, c in zip(self.blocks, cache):
            x = b(x, xa, self.mask, c)
        return self.ln(x) @ self.token_embedding.weight.T
