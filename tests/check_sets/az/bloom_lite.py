"""
bloom_lite - run a (converted) BLOOM checkpoint with nothing but NumPy.

    python bloom_lite.py model.npz "12 55 871"

The npz is a flat copy of the HF state dict; torch weights are [out, in].
The fused query_key_value weight is laid out [n_head, 3, head_dim].
"""
import sys

import numpy as np


class Config:
    def __init__(self, n_layer=2, n_head=8, hidden=64, vocab=250, eps=1e-5):
        if n_head & (n_head - 1):
            raise ValueError("only head counts that are powers of two are supported")
        self.n_layer, self.n_head, self.hidden = n_layer, n_head, hidden
        self.vocab, self.eps = vocab, eps
        self.head_dim = hidden // n_head


def alibi_slopes(n_head):
    """One slope per head, the geometric sequence of Press et al.:
    it starts at 2^(-8/n) and has that same value as its ratio."""
    return 2.0 ** (-8.0 * np.arange(n_head) / n_head)


def layer_norm(x, weight, bias, eps):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * weight + bias


def bloom_gelu(x):
    return x * 0.5 * (1.0 + np.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))


class BloomAttention:
    def __init__(self, cfg, state, prefix):
        self.cfg = cfg
        self.w_qkv = state[prefix + "query_key_value.weight"]
        self.b_qkv = state[prefix + "query_key_value.bias"]
        self.w_out = state[prefix + "dense.weight"]
        self.b_out = state[prefix + "dense.bias"]
        self.slopes = alibi_slopes(cfg.n_head)
        self.reset()

    def reset(self):
        self.keys = self.values = None

    def __call__(self, x):
        """x [T, hidden]: the next T tokens of one text.  Keys and values are kept between calls."""
        t, c = x.shape
        fused = x @ self.w_qkv.T + self.b_qkv
        fused = fused.reshape(t, self.cfg.n_head, 3, self.cfg.head_dim)
        q, k, v = fused[:, :, 0], fused[:, :, 1], fused[:, :, 2]       # each [t, n_head, d]
        if self.keys is not None:
            k = np.concatenate([self.keys, k], 0)
            v = np.concatenate([self.values, v], 0)
        self.keys, self.values = k, v

        s = k.shape[0]
        q_pos = np.arange(s - t, s)[:, None]
        k_pos = np.arange(s)[None, :]
        logits = np.einsum("thd,shd->hts", q, k) / np.sqrt(self.cfg.head_dim)
        logits = logits - self.slopes[:, None, None] * (q_pos - k_pos)
        logits = np.where(k_pos <= q_pos, logits, -np.inf)
        logits -= logits.max(-1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(-1, keepdims=True)
        ctx = np.einsum("hts,shd->thd", p, v).reshape(t, c)
        return ctx @ self.w_out.T + self.b_out


class Bloom:
    def __init__(self, cfg, state):
        self.cfg, self.state = cfg, state
        self.attn = [BloomAttention(cfg, state, f"h.{i}.self_attention.") for i in range(cfg.n_layer)]

    def _ln(self, x, name):
        return layer_norm(x, self.state[name + ".weight"], self.state[name + ".bias"], self.cfg.eps)

    def step(self, ids):
        s = self.state
        x = self._ln(s["word_embeddings.weight"][np.asarray(ids)], "word_embeddings_layernorm")
        for i, attn in enumerate(self.attn):
            p = f"h.{i}."
            x = x + attn(self._ln(x, p + "input_layernorm"))
            h = self._ln(x, p + "post_attention_layernorm")
            h = bloom_gelu(h @ s[p + "mlp.dense_h_to_4h.weight"].T + s[p + "mlp.dense_h_to_4h.bias"])
            x = x + h @ s[p + "mlp.dense_4h_to_h.weight"].T + s[p + "mlp.dense_4h_to_h.bias"]
        return self._ln(x[-1], "ln_f") @ s["word_embeddings.weight"].T

    def greedy(self, ids, n):
        out, nxt = [], list(ids)
        for _ in range(n):
            nxt = [int(self.step(nxt).argmax())]
            out += nxt
        return out


def fake_state(cfg, seed=0):
    r = np.random.default_rng(seed)
    c, st = cfg.hidden, {}
    shapes = {"word_embeddings.weight": (cfg.vocab, c)}
    for n in ["word_embeddings_layernorm", "ln_f"]:
        shapes[n + ".weight"], shapes[n + ".bias"] = (c,), (c,)
    for i in range(cfg.n_layer):
        for n in ["input_layernorm", "post_attention_layernorm"]:
            shapes[f"h.{i}.{n}.weight"], shapes[f"h.{i}.{n}.bias"] = (c,), (c,)
        for n, (o, k) in {"self_attention.query_key_value": (3 * c, c), "self_attention.dense": (c, c),
                          "mlp.dense_h_to_4h": (4 * c, c), "mlp.dense_4h_to_h": (c, 4 * c)}.items():
            shapes[f"h.{i}.{n}.weight"], shapes[f"h.{i}.{n}.bias"] = (o, k), (o,)
    for n, sh in shapes.items():
        st[n] = r.normal(0, sh[-1] ** -0.5, sh) if len(sh) == 2 else (
            np.ones(sh) if "norm.weight" in n or n == "ln_f.weight" else r.normal(0, .02, sh))
    return st


if __name__ == "__main__":
    if len(sys.argv) == 3:
        state = dict(np.load(sys.argv[1]))
        ids = [int(t) for t in sys.argv[2].split()]
        cfg = Config(24, 16, 1024, state["word_embeddings.weight"].shape[0])
    else:
        cfg = Config()
        state, ids = fake_state(cfg), [5, 6, 7]
    print(Bloom(cfg, state).greedy(ids, 10))
