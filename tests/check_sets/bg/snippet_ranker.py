'''
Rank functions of a repository for a natural-language query.

Each function is a bag of token vectors. The query tokens read the function's tokens
(scaled dot product), the result is compared with the query. Because an index contains
the same functions over and over, the reading weights are memoised.
'''
import numpy as np


def l2(x, eps=1e-9):
    return x / (np.linalg.norm(x, axis=-1, keepdims=True) + eps)


def _softmax(z):
    z = z - z.max(-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(-1, keepdims=True)


class SnippetReader:
    """read(query, code): query [m, d] tokens of the question, code [n, d] tokens of one
    function; gives [m, d], what each query token finds in the function."""

    def __init__(self, dim, seed=0, capacity=512):
        rng = np.random.default_rng(seed)
        self.wq = rng.normal(0, dim ** -0.5, (dim, dim))
        self.wk = rng.normal(0, dim ** -0.5, (dim, dim))
        self.dim = dim
        self.capacity = capacity
        self._memo = {}

    def _weights(self, query, code):
        tag = hash(code.tobytes())
        w = self._memo.get(tag)
        if w is None or w.shape != (len(query), len(code)):
            s = (query @ self.wq) @ (code @ self.wk).T / np.sqrt(self.dim)
            w = _softmax(s)
            if len(self._memo) >= self.capacity:
                self._memo.pop(next(iter(self._memo)))
            self._memo[tag] = w
        return w

    def read(self, query, code):
        return self._weights(query, code) @ code


class Ranker:
    def __init__(self, reader):
        self.reader = reader
        self.names, self.bodies = [], []

    def add(self, name, tokens):
        self.names.append(name)
        self.bodies.append(np.ascontiguousarray(tokens))

    def score(self, query, body):
        found = self.reader.read(query, body)
        return float((l2(found) * l2(query)).sum(-1).mean())

    def top(self, query, k=3):
        s = np.array([self.score(query, b) for b in self.bodies])
        return [(self.names[i], s[i]) for i in np.argsort(-s)[:k]]


def main():
    rng = np.random.default_rng(1)
    r = Ranker(SnippetReader(8))
    for n in ("open_file", "parse_json", "retry"):
        r.add(n, rng.normal(size=(rng.integers(4, 9), 8)))
    print(r.top(rng.normal(size=(3, 8))))


if __name__ == "__main__":
    main()
