"""Run a small GPT-NeoX / Pythia checkpoint with nothing but numpy.

The state dict is used as it is. Linear weights are (out, in). As in the original training
code, the rows of attention.query_key_value.weight are grouped by head: first the q, k and
v rows of head 0 (head_dim each), then the q, k and v rows of head 1, and so on.
"""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def linear(sd, name, x):
    return x @ sd[name + ".weight"].T + sd[name + ".bias"]


def layer_norm(sd, name, x, eps=1e-5):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x ** 2).mean(-1, keepdims=True) + eps)
    return x * sd[name + ".weight"] + sd[name + ".bias"]


def rotary(x, rotary_ndims, start=0, base=10000.0):
    """x (H, T, hd); only the first rotary_ndims numbers of every head are rotated"""
    r = rotary_ndims
    inv = 1.0 / base ** (np.arange(0, r, 2) / r)
    ang = (start + np.arange(x.shape[1]))[:, None] * inv[None, :]
    ang = np.concatenate([ang, ang], -1)
    rot, keep = x[..., :r], x[..., r:]
    half = np.concatenate([-rot[..., r // 2:], rot[..., : r // 2]], -1)
    return np.concatenate([rot * np.cos(ang) + half * np.sin(ang), keep], -1)


def attention(sd, prefix, x, n_head, rotary_pct=0.25):
    """x (T, D) -> (T, D)"""
    T, D = x.shape
    hd = D // n_head
    qkv = linear(sd, prefix + ".query_key_value", x)
    q, k, v = qkv.reshape(T, 3, n_head, hd).transpose(1, 2, 0, 3)
    ndims = int(hd * rotary_pct)
    q, k = rotary(q, ndims), rotary(k, ndims)
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(hd)
    scores = np.where(np.tri(T, dtype=bool), scores, -np.inf)
    y = softmax(scores) @ v
    return linear(sd, prefix + ".dense", y.transpose(1, 0, 2).reshape(T, D))


def layer(sd, i, x, n_head):
    p = f"gpt_neox.layers.{i}"
    # parallel residual
    a = attention(sd, p + ".attention", layer_norm(sd, p + ".input_layernorm", x), n_head)
    m = layer_norm(sd, p + ".post_attention_layernorm", x)
    m = linear(sd, p + ".mlp.dense_4h_to_h", gelu(linear(sd, p + ".mlp.dense_h_to_4h", m)))
    return x + a + m


def logits(sd, ids, n_layer, n_head):
    x = sd["gpt_neox.embed_in.weight"][np.asarray(ids)]
    for i in range(n_layer):
        x = layer(sd, i, x, n_head)
    x = layer_norm(sd, "gpt_neox.final_layer_norm", x)
    return x @ sd["embed_out.weight"].T


def greedy(sd, ids, steps, n_layer, n_head, eos=None):
    ids = list(ids)
    for _ in range(steps):
        nxt = int(logits(sd, ids, n_layer, n_head)[-1].argmax())
        ids.append(nxt)
        if nxt == eos:
            break
    return ids


def fake_state_dict(vocab, d, n_layer, seed=0):
    """random weights with the right names, for trying things out"""
    r = np.random.default_rng(seed)
    sd = {"gpt_neox.embed_in.weight": r.normal(size=(vocab, d)),
          "embed_out.weight": r.normal(size=(vocab, d)) / np.sqrt(d)}

    def lin(name, o, i):
        sd[name + ".weight"] = r.normal(size=(o, i)) / np.sqrt(i)
        sd[name + ".bias"] = r.normal(size=o) * 0.02

    def ln(name):
        sd[name + ".weight"], sd[name + ".bias"] = np.ones(d), np.zeros(d)

    for i in range(n_layer):
        p = f"gpt_neox.layers.{i}"
        lin(p + ".attention.query_key_value", 3 * d, d)
        lin(p + ".attention.dense", d, d)
        lin(p + ".mlp.dense_h_to_4h", 4 * d, d)
        lin(p + ".mlp.dense_4h_to_h", d, 4 * d)
        ln(p + ".input_layernorm")
        ln(p + ".post_attention_layernorm")
    ln("gpt_neox.final_layer_norm")
    return sd
