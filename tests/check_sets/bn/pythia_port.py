"""Port of the GPT-NeoX / Pythia blocks for circuit analysis.

Checkpoint facts this file relies on:
  * attention.query_key_value.weight has 3*hidden rows.  The rows are grouped by
    head: for head 0 first its q rows, then its k rows, then its v rows, then the
    same for head 1, and so on  -> (heads, 3, head_size).
  * rotary on the first `rotary_pct` of every head, rotate_half style.
  * attention and MLP run in parallel on the same residual input.
"""
import torch
from torch import nn


class Config:
    hidden = 48
    heads = 4
    layers = 2
    vocab = 128
    rotary_pct = 0.5
    rotary_base = 10000
    parallel = True

    @property
    def head_size(self):
        return self.hidden // self.heads


def partial_rotary(x, positions, n_rot, base):
    """x: b h t d"""
    rot, keep = x[..., :n_rot], x[..., n_rot:]
    inv = base ** (-torch.arange(0, n_rot, 2, device=x.device, dtype=torch.float32) / n_rot)
    ang = positions.float()[:, None] * inv
    ang = torch.cat((ang, ang), -1)
    half = n_rot // 2
    turned = torch.cat((-rot[..., half:], rot[..., :half]), -1)
    rot = rot * ang.cos().to(x.dtype) + turned * ang.sin().to(x.dtype)
    return torch.cat((rot, keep), -1)


class HookPoint(nn.Module):
    """Identity with a place to hang hooks on."""

    def __init__(self):
        super().__init__()
        self.fn = None

    def forward(self, x):
        return x if self.fn is None else self.fn(x)


class NeoXAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.query_key_value = nn.Linear(cfg.hidden, 3 * cfg.hidden)
        self.dense = nn.Linear(cfg.hidden, cfg.hidden)
        self.hook_pattern = HookPoint()
        self.hook_z = HookPoint()

    def forward(self, x):
        c = self.cfg
        b, t, _ = x.shape
        fused = self.query_key_value(x)
        fused = fused.view(b, t, 3, c.heads, c.head_size)
        q, k, v = fused.permute(2, 0, 3, 1, 4)

        n_rot = int(c.head_size * c.rotary_pct)
        pos = torch.arange(t, device=x.device)
        q = partial_rotary(q, pos, n_rot, c.rotary_base)
        k = partial_rotary(k, pos, n_rot, c.rotary_base)

        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * c.head_size ** -0.5
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(future, torch.finfo(scores.dtype).min)
        pattern = self.hook_pattern(scores.float().softmax(-1).to(v.dtype))
        z = self.hook_z(torch.einsum("bhqk,bhkd->bqhd", pattern, v))
        return self.dense(z.flatten(2))


class NeoXBlock(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(cfg.hidden)
        self.post_attention_layernorm = nn.LayerNorm(cfg.hidden)
        self.attention = NeoXAttention(cfg)
        self.mlp = nn.ModuleDict(dict(
            dense_h_to_4h=nn.Linear(cfg.hidden, 4 * cfg.hidden),
            dense_4h_to_h=nn.Linear(4 * cfg.hidden, cfg.hidden)))
        self.parallel = cfg.parallel

    def _mlp(self, x):
        return self.mlp["dense_4h_to_h"](nn.functional.gelu(self.mlp["dense_h_to_4h"](x)))

    def forward(self, x):
        a = self.attention(self.input_layernorm(x))
        if self.parallel:
            return x + a + self._mlp(self.post_attention_layernorm(x))
        x = x + a
        return x + self._mlp(self.post_attention_layernorm(x))


def load_block(block: NeoXBlock, state: dict, i: int) -> None:
    prefix = f"gpt_neox.layers.{i}."
    own = {k[len(prefix):]: v for k, v in state.items() if k.startswith(prefix)}
    skip = ("attention.bias", "attention.masked_bias", "attention.rotary_emb.inv_freq")
    block.load_state_dict({k: v for k, v in own.items() if k not in skip})
