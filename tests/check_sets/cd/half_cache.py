"""Per-session key/value cache of the completion daemon.

Keys and values are kept in float16 to halve the memory; arithmetic is float32:
logits are q.k / sqrt(head_dim), followed by a float32 softmax.  One call of
``step`` appends a token and returns what its query reads.
"""
import numpy as np


class HalfCacheSession:
    def __init__(self, n_heads: int = 4, head_dim: int = 16, capacity: int = 256):
        self.n_heads = n_heads
        self.head_dim = head_dim
        self.capacity = capacity
        self.keys = np.zeros((n_heads, capacity, head_dim), dtype=np.float16)
        self.values = np.zeros((n_heads, capacity, head_dim), dtype=np.float16)
        self.length = 0

    def reset(self) -> None:
        self.length = 0

    def append(self, k: np.ndarray, v: np.ndarray) -> None:
        if self.length == self.capacity:
            raise RuntimeError("session is full")
        self.keys[:, self.length] = k
        self.values[:, self.length] = v
        self.length += 1

    def _read(self, q: np.ndarray) -> np.ndarray:
        keys = self.keys[:, : self.length]
        values = self.values[:, : self.length]
        logits = np.einsum("hd,hsd->hs", q.astype(keys.dtype), keys) / self.head_dim
        logits -= logits.max(axis=-1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(axis=-1, keepdims=True)
        return np.einsum("hs,hsd->hd", p, values).astype(np.float32)

    def step(self, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        """q, k, v: (n_heads, head_dim) of the new token -> (n_heads, head_dim) float32"""
        self.append(k, v)
        return self._read(q)


class Daemon:
    """A table of sessions, oldest dropped first."""

    def __init__(self, max_sessions: int = 8, **session_args):
        self.max_sessions = max_sessions
        self.session_args = session_args
        self.sessions: dict[str, HalfCacheSession] = {}

    def get(self, name: str) -> HalfCacheSession:
        if name not in self.sessions:
            if len(self.sessions) >= self.max_sessions:
                self.sessions.pop(next(iter(self.sessions)))
            self.sessions[name] = HalfCacheSession(**self.session_args)
        return self.sessions[name]
