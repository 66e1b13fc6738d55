"""Tiny speech-to-text decoder in NumPy (weights converted from a torch checkpoint).

All linear weights keep the torch layout [out, in].  The encoder output of one
utterance is [n_frames, width]; batch size is always 1 here.
"""
import math
import numpy as np


def gelu(x):
    erf = np.vectorize(math.erf)
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def lin(x, P, key):
    y = x @ P[key + ".weight"].T
    b = P.get(key + ".bias")
    return y if b is None else y + b


def layer_norm(x, P, key):
    m = x.mean(-1, keepdims=True)
    v = x.var(-1, keepdims=True)
    return (x - m) / np.sqrt(v + 1e-5) * P[key + ".weight"] + P[key + ".bias"]


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def heads(x, n):
    """[t, n*d] -> [n, t, d]"""
    return x.reshape(x.shape[0], n, -1).swapaxes(0, 1)


def attend(q, k, v, n_head, past=None):
    """q [tq, w], k/v [tk, w]. With `past` (number of earlier tokens) the
    attention is causal: query i stands at position past + i."""
    tq, w = q.shape
    tk = k.shape[0]
    # d**-0.25 on either side, as in the original implementation
    s = (w // n_head) ** -0.25
    qk = heads(q * s, n_head) @ heads(k * s, n_head).swapaxes(1, 2)
    if past is not None:
        allowed = np.arange(tk)[None, :] <= (past + np.arange(tq))[:, None]
        qk = np.where(allowed, qk, -np.inf)
    p = softmax(qk)
    y = (p @ heads(v, n_head)).swapaxes(0, 1).reshape(tq, w)
    return y, p


class TextDecoder:
    def __init__(self, P, n_layer, n_head):
        self.P, self.n_layer, self.n_head = P, n_layer, n_head
        self.reset()

    def reset(self):
        self.kv = {}
        self.n_past = 0

    def _append(self, name, k, v):
        if name in self.kv:
            k = np.concatenate([self.kv[name][0], k], 0)
            v = np.concatenate([self.kv[name][1], v], 0)
        self.kv[name] = (k, v)
        return k, v

    def _cross_kv(self, name, audio):
        if name not in self.kv:
            self.kv[name] = (lin(audio, self.P, name + ".key"), lin(audio, self.P, name + ".value"))
        return self.kv[name]

    def step(self, tokens, audio):
        """tokens: the new ids only. Returns logits [len(tokens), vocab]."""
        P = self.P
        n = len(tokens)
        x = P["tok.weight"][tokens] + P["pos"][self.n_past:self.n_past + n]
        for i in range(self.n_layer):
            b = f"blk.{i}"
            h = layer_norm(x, P, b + ".ln1")
            k, v = self._append(b + ".attn", lin(h, P, b + ".attn.key"), lin(h, P, b + ".attn.value"))
            y, _ = attend(lin(h, P, b + ".attn.query"), k, v, self.n_head, past=self.n_past)
            x = x + lin(y, P, b + ".attn.out")
            h = layer_norm(x, P, b + ".ln2")
            k, v = self._cross_kv(b + ".cross", audio)
            y, _ = attend(lin(h, P, b + ".cross.query"), k, v, self.n_head)
            x = x + lin(y, P, b + ".cross.out")
            h = layer_norm(x, P, b + ".ln3")
            x = x + lin(gelu(lin(h, P, b + ".fc1")), P, b + ".fc2")
        self.n_past += n
        x = layer_norm(x, P, "ln_f")
        return x @ P["tok.weight"].T


def greedy(dec, audio, prompt, eot, limit=64):
    dec.reset()
    out, feed = [], list(prompt)
    for _ in range(limit):
        nxt = int(dec.step(feed, audio)[-1].argmax())
        if nxt == eot:
            break
        out.append(nxt)
        feed = [nxt]
    return out
