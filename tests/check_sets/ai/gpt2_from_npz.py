# Runs a GPT-2 checkpoint that was dumped with np.savez, nothing but numpy needed.
# Names of the arrays are the ones of the original TF/HF checkpoints
# ("h.0.attn.c_attn.weight" and so on); c_* weights are stored [in, out].
import sys
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def layer_norm(x, g, b, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    s = x.var(-1, keepdims=True)
    return (x - m) / np.sqrt(s + eps) * g + b


def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)


def attn(x, W, pre, n_head, past=None):
    """x [T, C]; past is None or the (k, v) this function returned for the tokens before.

    Returns the block output [T, C] and the grown (k, v), each [n_head, S, C // n_head].
    """
    T, C = x.shape
    hs = C // n_head
    qkv = x @ W[pre + "c_attn.weight"] + W[pre + "c_attn.bias"]
    q, k, v = np.split(qkv, 3, axis=-1)
    q, k, v = (a.reshape(T, n_head, hs).swapaxes(0, 1) for a in (q, k, v))
    if past is not None:
        k = np.concatenate([past[0], k], axis=1)
        v = np.concatenate([past[1], v], axis=1)
    S = k.shape[1]
    att = q @ k.swapaxes(1, 2) / hs ** 0.5
    future = np.triu(np.ones((T, S), dtype=bool), k=1 + S - T)
    att = np.where(future, -np.inf, att)
    y = softmax(att) @ v
    y = y.swapaxes(0, 1).reshape(T, C)
    return y @ W[pre + "c_proj.weight"] + W[pre + "c_proj.bias"], (k, v)


def mlp(x, W, pre):
    h = gelu(x @ W[pre + "c_fc.weight"] + W[pre + "c_fc.bias"])
    return h @ W[pre + "c_proj.weight"] + W[pre + "c_proj.bias"]


def forward(ids, W, n_layer, n_head, state=None):
    """ids: new tokens only. state: list of per-layer (k, v), or None at the start."""
    done = 0 if state is None else state[0][0].shape[1]
    x = W["wte"][ids] + W["wpe"][done:done + len(ids)]
    new_state = []
    for i in range(n_layer):
        p = f"h.{i}."
        a, kv = attn(layer_norm(x, W[p + "ln_1.weight"], W[p + "ln_1.bias"]),
                     W, p + "attn.", n_head, None if state is None else state[i])
        new_state.append(kv)
        x = x + a
        x = x + mlp(layer_norm(x, W[p + "ln_2.weight"], W[p + "ln_2.bias"]), W, p + "mlp.")
    x = layer_norm(x, W["ln_f.weight"], W["ln_f.bias"])
    return x @ W["wte"].T, new_state


def generate(ids, W, n_layer, n_head, n_new):
    out = list(ids)
    logits, state = forward(np.asarray(out), W, n_layer, n_head)
    for _ in range(n_new):
        nxt = int(np.argmax(logits[-1]))
        out.append(nxt)
        logits, state = forward(np.asarray([nxt]), W, n_layer, n_head, state)
    return out


def random_weights(n_layer=2, n_embd=16, n_vocab=50, n_ctx=64, seed=0):
    r = np.random.default_rng(seed)
    W = {"wte": r.normal(0, .1, (n_vocab, n_embd)), "wpe": r.normal(0, .1, (n_ctx, n_embd)),
         "ln_f.weight": np.ones(n_embd), "ln_f.bias": np.zeros(n_embd)}
    for i in range(n_layer):
        for name, a, b in (("attn.c_attn", 1, 3), ("attn.c_proj", 1, 1), ("mlp.c_fc", 1, 4), ("mlp.c_proj", 4, 1)):
            W[f"h.{i}.{name}.weight"] = r.normal(0, .3, (a * n_embd, b * n_embd))
            W[f"h.{i}.{name}.bias"] = r.normal(0, .1, b * n_embd)
        for ln in ("ln_1", "ln_2"):
            W[f"h.{i}.{ln}.weight"] = np.ones(n_embd)
            W[f"h.{i}.{ln}.bias"] = np.zeros(n_embd)
    return W


if __name__ == "__main__":
    weights = dict(np.load(sys.argv[1])) if len(sys.argv) > 1 else random_weights()
    print(generate([1, 2, 3], weights, 2, 4, 8))
