"""Question answering over an archive of embedded paragraphs.

Archive.read(name, question, paragraphs)
    name        str, identifies the dossier
    question    (D,) float array
    paragraphs  (N, D), the embedded paragraphs of that dossier; the same name
                always comes with the same paragraphs
    returns     (D,) = sum_i w_i p_i with
                w = softmax_i( (question Wq) . (p_i Wk) / sqrt(A) )

Projecting a dossier is slow, so what has been computed for a name is kept.
Every question gets its own weights.
"""
import numpy as np


class Archive:
    def __init__(self, Wq, Wk):
        self.Wq, self.Wk = np.asarray(Wq), np.asarray(Wk)
        self.kept = {}

    def _weights(self, question, keys):
        s = keys @ (question @ self.Wq) / np.sqrt(self.Wk.shape[1])
        s -= s.max()
        e = np.exp(s)
        return e / e.sum()

    def read(self, name, question, paragraphs):
        paragraphs = np.asarray(paragraphs, dtype=float)
        if name not in self.kept:
            keys = paragraphs @ self.Wk
            self.kept[name] = self._weights(np.asarray(question), keys)
        return self.kept[name] @ paragraphs

    def read_many(self, name, questions, paragraphs):
        """questions (M, D) -> (M, D)."""
        return np.stack([self.read(name, q, paragraphs) for q in questions])
