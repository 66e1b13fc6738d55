"""llamette: smallest possible Llama inference in torch. Reads a HF state dict, keeps a KV cache.

    m = Llamette(sd, Args(...)); logits = m(prompt_ids); logits = m(next_id) ...; m.reset()
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass
class Args:
    n_layers: int = 2
    n_heads: int = 4
    n_kv_heads: int = 2
    head_dim: int = 16
    rope_theta: float = 10000.0
    eps: float = 1e-5
    max_seq: int = 256


def rms(x, w, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


def rope_tables(a: Args):
    inv = a.rope_theta ** (-torch.arange(0, a.head_dim, 2).double() / a.head_dim)
    ang = torch.outer(torch.arange(a.max_seq).double(), inv)
    ang = torch.cat([ang, ang], -1)
    return ang.cos().float(), ang.sin().float()


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


class KV:
    def __init__(self):
        self.k = self.v = None

    def __len__(self):
        return 0 if self.k is None else self.k.shape[-2]

    def append(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], -2)
        self.v = v if self.v is None else torch.cat([self.v, v], -2)
        return self.k, self.v


class Llamette:
    def __init__(self, sd, args):
        self.w, self.a = sd, args
        self.cos, self.sin = rope_tables(args)
        self.reset()

    def reset(self):
        self.cache = [KV() for _ in range(self.a.n_layers)]

    def attention(self, i, x):
        a, p = self.a, f"model.layers.{i}.self_attn."
        T = x.shape[0]

        def heads(name, n):
            return (x @ self.w[p + name + ".weight"].T).view(T, n, a.head_dim).transpose(0, 1)

        q, k, v = heads("q_proj", a.n_heads), heads("k_proj", a.n_kv_heads), heads("v_proj", a.n_kv_heads)
        cos, sin = self.cos[:T], self.sin[:T]
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        past = len(self.cache[i])
        k, v = self.cache[i].append(k, v)
        g = a.n_heads // a.n_kv_heads
        k, v = k.repeat_interleave(g, 0), v.repeat_interleave(g, 0)
        s = q @ k.mT / a.head_dim ** 0.5
        pos = past + torch.arange(T)
        s = s.masked_fill(torch.arange(past + T)[None] > pos[:, None], float("-inf"))
        o = s.softmax(-1) @ v
        return o.transpose(0, 1).reshape(T, -1) @ self.w[p + "o_proj.weight"].T

    def mlp(self, i, x):
        p = f"model.layers.{i}.mlp."
        g = F.silu(x @ self.w[p + "gate_proj.weight"].T) * (x @ self.w[p + "up_proj.weight"].T)
        return g @ self.w[p + "down_proj.weight"].T

    @torch.no_grad()
    def __call__(self, ids):
        """ids [T]: the new tokens only. Returns [T, vocab]."""
        x = self.w["model.embed_tokens.weight"][ids]
        for i in range(self.a.n_layers):
            p = f"model.layers.{i}."
            x = x + self.attention(i, rms(x, self.w[p + "input_layernorm.weight"], self.a.eps))
            x = x + self.mlp(i, rms(x, self.w[p + "post_attention_layernorm.weight"], self.a.eps))
        x = rms(x, self.w["model.norm.weight"], self.a.eps)
        return x @ self.w["lm_head.weight"].T

    def generate(self, ids, n):
        self.reset()
        out, new = list(ids), list(ids)
        for _ in range(n):
            new = [int(self(torch.tensor(new))[-1].argmax())]
            out += new
        return out
