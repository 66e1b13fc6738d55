"""Chat server core: Llama-family decoding straight from a state dict.

    sd = torch.load(...); engine = Engine(sd, Shape(...)); engine.reply(ids)

Names in the state dict are those of the HF export (model.layers.N.self_attn.q_proj.weight).
"""
import math
from dataclasses import dataclass, field
from typing import Dict, List, Tuple

import torch
import torch.nn.functional as F


@dataclass
class Shape:
    dim: int = 2048
    layers: int = 22
    q_heads: int = 32
    kv_heads: int = 4            # q head h reads kv head h // (q_heads // kv_heads)
    theta: float = 10000.0
    eps: float = 1e-5
    max_seq: int = 2048

    @property
    def head_dim(self):
        return self.dim // self.q_heads


@dataclass
class Session:
    """What the server keeps per open chat."""
    kv: Dict[int, Tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)
    ids: List[int] = field(default_factory=list)

    @property
    def length(self):
        return self.kv[0][0].shape[1] if self.kv else 0


def rms_norm(x, w, eps):
    return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps).to(x.dtype) * w


class Engine:
    def __init__(self, sd, shape: Shape):
        self.sd = sd
        self.s = shape
        half = shape.head_dim // 2
        freq = shape.theta ** (-torch.arange(half, dtype=torch.float64) / half)
        ang = torch.outer(torch.arange(shape.max_seq, dtype=torch.float64), freq)
        self.cos = torch.cat([ang, ang], -1).cos().float()
        self.sin = torch.cat([ang, ang], -1).sin().float()

    def lin(self, x, name):
        return F.linear(x, self.sd[name + ".weight"])

    def rotate(self, x, positions):
        """x [heads, T, head_dim], positions [T] place of each token in the chat."""
        cos, sin = self.cos[positions].to(x.dtype), self.sin[positions].to(x.dtype)
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def attention(self, x, i, session):
        """New tokens x [T, dim] of a chat against everything in the session, causal."""
        s, T = self.s, x.shape[0]
        pre = f"model.layers.{i}.self_attn."
        q = self.lin(x, pre + "q_proj").view(T, s.q_heads, s.head_dim).transpose(0, 1)
        k = self.lin(x, pre + "k_proj").view(T, s.kv_heads, s.head_dim).transpose(0, 1)
        v = self.lin(x, pre + "v_proj").view(T, s.kv_heads, s.head_dim).transpose(0, 1)

        here = torch.arange(T)
        q, k = self.rotate(q, here), self.rotate(k, here)
        if i in session.kv:
            k = torch.cat([session.kv[i][0], k], dim=1)
            v = torch.cat([session.kv[i][1], v], dim=1)
        session.kv[i] = (k, v)

        n_rep = s.q_heads // s.kv_heads
        k = k.repeat(n_rep, 1, 1)
        v = v.repeat(n_rep, 1, 1)

        att = q @ k.transpose(1, 2) / math.sqrt(s.head_dim)
        S = k.shape[1]
        ahead = torch.ones(T, S, dtype=torch.bool).triu(S - T + 1)
        att = att.masked_fill(ahead, float("-inf")).float().softmax(-1).to(v.dtype)
        y = (att @ v).transpose(0, 1).reshape(T, s.dim)
        return self.lin(y, pre + "o_proj")

    def forward(self, ids, session):
        x = self.sd["model.embed_tokens.weight"][torch.tensor(ids)]
        for i in range(self.s.layers):
            pre = f"model.layers.{i}."
            h = rms_norm(x, self.sd[pre + "input_layernorm.weight"], self.s.eps)
            x = x + self.attention(h, i, session)
            h = rms_norm(x, self.sd[pre + "post_attention_layernorm.weight"], self.s.eps)
            g = F.silu(self.lin(h, pre + "mlp.gate_proj")) * self.lin(h, pre + "mlp.up_proj")
            x = x + self.lin(g, pre + "mlp.down_proj")
        x = rms_norm(x, self.sd["model.norm.weight"], self.s.eps)
        session.ids.extend(ids)
        return self.lin(x, "lm_head")

    @torch.inference_mode()
    def reply(self, ids, session=None, max_new=128, stop=2, temperature=0.0):
        session = session or Session()
        logits = self.forward(ids, session)
        out = []
        while len(out) < max_new and session.length < self.s.max_seq:
            z = logits[-1].float()
            nxt = int(z.argmax()) if temperature == 0 else int(torch.multinomial((z / temperature).softmax(-1), 1))
            if nxt == stop:
                break
            out.append(nxt)
            logits = self.forward([nxt], session)
        return out, session
