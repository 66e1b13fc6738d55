"""Pythia / GPT-NeoX forward pass from the checkpoint's tensors, without transformers.

Names as in the files:  layers.{i}.attention.query_key_value.weight  (3 * hidden, hidden)
The rows of query_key_value are packed head by head: for head 0 its q rows, its k rows, its
v rows, then the same for head 1, ... i.e. (num_heads, 3, head_size).
Rotary on the first rotary_pct of each head, half-split; parallel residual.
"""
import math
import torch
import torch.nn.functional as F


def rotary(x, n_rot, pos, base=10000):
    """x (B, H, T, hs)"""
    r, rest = x[..., :n_rot], x[..., n_rot:]
    inv = 1.0 / base ** (torch.arange(0, n_rot, 2).float() / n_rot)
    f = pos[:, None].float() * inv
    emb = torch.cat([f, f], dim=-1)
    a, b = r.chunk(2, dim=-1)
    r = r * emb.cos() + torch.cat([-b, a], dim=-1) * emb.sin()
    return torch.cat([r, rest], dim=-1)


def neox_attention(w, prefix, x, num_heads, rotary_pct=0.25):
    """causal self-attention, x (B, T, hidden) starting at position 0"""
    B, T, hidden = x.shape
    hs = hidden // num_heads
    qkv = F.linear(x, w[f"{prefix}.query_key_value.weight"], w[f"{prefix}.query_key_value.bias"])
    qkv = qkv.view(B, T, 3, num_heads, hs)
    q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))

    pos = torch.arange(T)
    n_rot = int(hs * rotary_pct)
    q, k = rotary(q, n_rot, pos), rotary(k, n_rot, pos)
    att = q @ k.transpose(-1, -2) / math.sqrt(hs)
    att = att.masked_fill(pos[None, :] > pos[:, None], float("-inf"))
    y = att.softmax(-1) @ v
    y = y.transpose(1, 2).reshape(B, T, hidden)
    return F.linear(y, w[f"{prefix}.dense.weight"], w[f"{prefix}.dense.bias"])


def neox_layer(w, i, x, num_heads):
    p = f"layers.{i}"
    ln = lambda n: F.layer_norm(x, x.shape[-1:], w[f"{p}.{n}.weight"], w[f"{p}.{n}.bias"])
    a = neox_attention(w, f"{p}.attention", ln("input_layernorm"), num_heads)
    m = F.linear(ln("post_attention_layernorm"), w[f"{p}.mlp.dense_h_to_4h.weight"], w[f"{p}.mlp.dense_h_to_4h.bias"])
    m = F.linear(F.gelu(m), w[f"{p}.mlp.dense_4h_to_h.weight"], w[f"{p}.mlp.dense_4h_to_h.bias"])
    return x + a + m


def forward(w, ids, n_layer, num_heads):
    x = w["embed_in.weight"][ids]
    for i in range(n_layer):
        x = neox_layer(w, i, x, num_heads)
    x = F.layer_norm(x, x.shape[-1:], w["final_layer_norm.weight"], w["final_layer_norm.bias"])
    return x @ w["embed_out.weight"].T


def blank_ckpt(n_layer=1, hidden=32, vocab=40, seed=0):
    g = torch.Generator().manual_seed(seed)
    w = {"embed_in.weight": torch.randn(vocab, hidden, generator=g), "embed_out.weight": torch.randn(vocab, hidden, generator=g)}

    def lin(name, o, i):
        w[name + ".weight"] = torch.randn(o, i, generator=g) / math.sqrt(i)
        w[name + ".bias"] = torch.randn(o, generator=g) * 0.1

    for i in range(n_layer):
        p = f"layers.{i}"
        lin(f"{p}.attention.query_key_value", 3 * hidden, hidden)
        lin(f"{p}.attention.dense", hidden, hidden)
        lin(f"{p}.mlp.dense_h_to_4h", 4 * hidden, hidden)
        lin(f"{p}.mlp.dense_4h_to_h", hidden, 4 * hidden)
        for n in ("input_layernorm", "post_attention_layernorm"):
            w[f"{p}.{n}.weight"], w[f"{p}.{n}.bias"] = torch.ones(hidden), torch.zeros(hidden)
    w["final_layer_norm.weight"], w["final_layer_norm.bias"] = torch.ones(hidden), torch.zeros(hidden)
    return w


if __name__ == "__main__":
    print(forward(blank_ckpt(), torch.randint(0, 40, (2, 6)), 1, 4).shape)
