"""Greedy speculative decoding with a tiny NumPy language model.

The draft model proposes `gamma` tokens, the target model scores them all in
one pass against its key/value cache, and the rejected tail is cut off again.
"""
from dataclasses import dataclass, field
from typing import Dict, List

import numpy as np

Array = np.ndarray


@dataclass
class LMConfig:
    vocab: int = 64
    width: int = 32
    n_heads: int = 4
    n_layers: int = 2
    max_len: int = 128


@dataclass
class KVStore:
    keys: List[Array] = field(default_factory=list)
    values: List[Array] = field(default_factory=list)

    @property
    def length(self) -> int:
        return self.keys[0].shape[1] if self.keys else 0

    def push(self, layer: int, k: Array, v: Array):
        if layer == len(self.keys):
            self.keys.append(k)
            self.values.append(v)
        else:
            self.keys[layer] = np.concatenate([self.keys[layer], k], axis=1)
            self.values[layer] = np.concatenate([self.values[layer], v], axis=1)
        return self.keys[layer], self.values[layer]

    def rollback(self, length: int):
        self.keys = [k[:, :length] for k in self.keys]
        self.values = [v[:, :length] for v in self.values]


def make_weights(cfg: LMConfig, seed: int) -> Dict[str, Array]:
    g = np.random.default_rng(seed)
    w = {"wte": g.normal(size=(cfg.vocab, cfg.width)), "wpe": g.normal(size=(cfg.max_len, cfg.width)) * 0.3}
    for i in range(cfg.n_layers):
        for n in ("q", "k", "v", "o"):
            w[f"h{i}.{n}"] = g.normal(size=(cfg.width, cfg.width)) * cfg.width ** -0.5
        w[f"h{i}.up"] = g.normal(size=(cfg.width, 4 * cfg.width)) * cfg.width ** -0.5
        w[f"h{i}.down"] = g.normal(size=(4 * cfg.width, cfg.width)) * (4 * cfg.width) ** -0.5
    return w


def _norm(x):
    return (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-5)


class TinyLM:
    def __init__(self, cfg: LMConfig, weights: Dict[str, Array]):
        self.cfg, self.w = cfg, weights

    def _attend(self, i: int, x: Array, store: KVStore) -> Array:
        """x [n, width] are the newest n positions; earlier ones are in the store."""
        h, d = self.cfg.n_heads, self.cfg.width // self.cfg.n_heads
        n = x.shape[0]
        q, k, v = (np.transpose((x @ self.w[f"h{i}.{c}"]).reshape(n, h, d), (1, 0, 2)) for c in "qkv")
        k, v = store.push(i, k, v)
        total = k.shape[1]
        logits = q @ k.transpose(0, 2, 1) / np.sqrt(d)
        visible = np.tri(n, total, total - n, dtype=bool)
        logits = np.where(visible, logits, np.finfo(logits.dtype).min)
        logits -= logits.max(-1, keepdims=True)
        a = np.exp(logits)
        a = a / a.sum(-1, keepdims=True)
        return (a @ v).swapaxes(0, 1).reshape(n, h * d) @ self.w[f"h{i}.o"]

    def __call__(self, ids: List[int], store: KVStore) -> Array:
        start = store.length
        x = self.w["wte"][ids] + self.w["wpe"][start : start + len(ids)]
        for i in range(self.cfg.n_layers):
            x = x + self._attend(i, _norm(x), store)
            x = x + np.maximum(_norm(x) @ self.w[f"h{i}.up"], 0) @ self.w[f"h{i}.down"]
        return _norm(x) @ self.w["wte"].T


def speculate(target: TinyLM, draft: TinyLM, prompt: List[int], steps: int, gamma: int = 4) -> List[int]:
    tokens = list(prompt)
    big, small = KVStore(), KVStore()
    while len(tokens) - len(prompt) < steps:
        guess: List[int] = []
        for _ in range(gamma):
            seq = tokens + guess
            guess.append(int(draft(seq[small.length :], small)[-1].argmax()))
        seq = tokens + guess
        seen = big.length
        picks = target(seq[seen:], big).argmax(-1)
        base = len(tokens) - 1 - seen           # row that predicts guess[0]
        n_ok = 0
        while n_ok < gamma and picks[base + n_ok] == guess[n_ok]:
            n_ok += 1
        tokens = tokens + guess[:n_ok] + [int(picks[base + n_ok])]
        big.rollback(min(big.length, len(tokens) - 1))
        small.rollback(min(small.length, len(tokens) - 1))
    return tokens[: len(prompt) + steps]
