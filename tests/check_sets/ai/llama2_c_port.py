"""Line-by-line translation of the well known C inference loop. Only lists and math.

Slow on purpose: this is what the other ports are compared with. The pairs of the
rotary embedding are neighbours (2i, 2i+1), as in the C code and its exporter.
"""
import math


class RunState:
    def __init__(self, p):
        kv_dim = p["dim"] * p["n_kv_heads"] // p["n_heads"]
        self.x = [0.0] * p["dim"]
        self.q = [0.0] * p["dim"]
        self.att = [[0.0] * p["seq_len"] for _ in range(p["n_heads"])]
        self.key_cache = [[[0.0] * kv_dim for _ in range(p["seq_len"])] for _ in range(p["n_layers"])]
        self.value_cache = [[[0.0] * kv_dim for _ in range(p["seq_len"])] for _ in range(p["n_layers"])]


def rmsnorm(x, weight):
    ss = sum(a * a for a in x) / len(x) + 1e-5
    inv = 1.0 / math.sqrt(ss)
    return [w * (inv * a) for w, a in zip(weight, x)]


def softmax(x, size):
    max_val = x[0]
    for i in range(1, size):
        if x[i] > max_val:
            max_val = x[i]
    total = 0.0
    for i in range(size):
        x[i] = math.exp(x[i] - max_val)
        total += x[i]
    for i in range(size):
        x[i] /= total


def matmul(x, w):
    # W (d,n) @ x (n,) -> (d,)
    return [sum(a * b for a, b in zip(row, x)) for row in w]


def rotate(vec, pos, head_size):
    for i in range(0, len(vec), 2):
        head_dim = i % head_size
        freq = 1.0 / math.pow(10000.0, head_dim / head_size)
        val = pos * freq
        fcr, fci = math.cos(val), math.sin(val)
        v0, v1 = vec[i], vec[i + 1]
        vec[i] = v0 * fcr - v1 * fci
        vec[i + 1] = v0 * fci + v1 * fcr


def multihead(p, w, s, l, xb, pos):
    """Attention of layer l for the token at `pos`; xb is the normed activation."""
    dim = p["dim"]
    head_size = dim // p["n_heads"]
    kv_mul = p["n_heads"] // p["n_kv_heads"]

    s.q = matmul(xb, w["wq"][l])
    k = matmul(xb, w["wk"][l])
    v = matmul(xb, w["wv"][l])
    rotate(s.q, pos, head_size)
    rotate(k, pos, head_size)
    s.key_cache[l][pos] = k
    s.value_cache[l][pos] = v

    out = [0.0] * dim
    for h in range(p["n_heads"]):
        q = s.q[h * head_size:(h + 1) * head_size]
        att = s.att[h]
        off = (h // kv_mul) * head_size
        for t in range(pos + 1):
            kt = s.key_cache[l][t]
            score = 0.0
            for i in range(head_size):
                score += q[i] * kt[off + i]
            att[t] = score / math.sqrt(head_size)
        softmax(att, pos + 1)
        for t in range(pos + 1):
            a = att[t]
            vt = s.value_cache[l][t]
            for i in range(head_size):
                out[h * head_size + i] += a * vt[off + i]
    return matmul(out, w["wo"][l])


def silu(a):
    return a * (1.0 / (1.0 + math.exp(-a)))


def forward(p, w, s, token, pos):
    s.x = list(w["token_embedding_table"][token])
    for l in range(p["n_layers"]):
        xb2 = multihead(p, w, s, l, rmsnorm(s.x, w["rms_att_weight"][l]), pos)
        s.x = [a + b for a, b in zip(s.x, xb2)]
        xb = rmsnorm(s.x, w["rms_ffn_weight"][l])
        hb = [silu(a) * b for a, b in zip(matmul(xb, w["w1"][l]), matmul(xb, w["w3"][l]))]
        s.x = [a + b for a, b in zip(s.x, matmul(hb, w["w2"][l]))]
    s.x = rmsnorm(s.x, w["rms_final_weight"])
    return matmul(s.x, w["wcls"])


def argmax(v):
    best = 0
    for i in range(1, len(v)):
        if v[i] > v[best]:
            best = i
    return best


def generate(p, w, prompt, steps):
    s = RunState(p)
    token, out = prompt[0], [prompt[0]]
    for pos in range(min(steps, p["seq_len"]) - 1):
        logits = forward(p, w, s, token, pos)
        token = prompt[pos + 1] if pos + 1 < len(prompt) else argmax(logits)
        out.append(token)
    return out
