"""phrase_deck -- which phrase of the deck fits what the learner wants to say?

Decks are large and asked again and again, so results are memoised (the phone app
redraws ten times a second with the same question).
"""
import hashlib

import numpy as np


def fingerprint(a):
    return hashlib.blake2b(np.ascontiguousarray(a).tobytes(), digest_size=16).hexdigest()


def softmax(z):
    z = z - np.max(z, axis=-1, keepdims=True)
    z = np.exp(z)
    return z / np.sum(z, axis=-1, keepdims=True)


def bag_of_trigrams(text, dim=64):
    v = np.zeros(dim)
    padded = f"  {text.lower()} "
    for i in range(len(padded) - 2):
        v[int(hashlib.md5(padded[i:i + 3].encode()).hexdigest(), 16) % dim] += 1
    return v / max(np.linalg.norm(v), 1e-9)


class PhraseRecall:
    """recall = PhraseRecall(sharpness); recall(q, K, V) -> (answer, weights)

    q (n, d) questions, K (m, d) phrases, V (m, e) what is known about them.
    weights = softmax(sharpness * q K' / sqrt(d)), answer = weights V.
    """

    def __init__(self, sharpness=1.0, remember=32):
        self.sharpness = sharpness
        self.remember = remember
        self._memo = {}

    def _weights(self, q, K):
        key = fingerprint(K)
        w = self._memo.get(key)
        if w is None or w.shape[0] != q.shape[0]:
            w = softmax(self.sharpness * q @ K.T / np.sqrt(K.shape[1]))
            if len(self._memo) >= self.remember:
                self._memo.pop(next(iter(self._memo)))
            self._memo[key] = w
        return w

    def __call__(self, q, K, V):
        w = self._weights(q, K)
        return w @ V, w


class Deck:
    def __init__(self, phrases, difficulty):
        self.phrases = list(phrases)
        self.K = np.stack([bag_of_trigrams(p) for p in self.phrases])
        self.V = np.asarray(difficulty, float).reshape(-1, 1)

    def suggest(self, recall, wish):
        answer, w = recall(bag_of_trigrams(wish)[None], self.K, self.V)
        return self.phrases[int(w[0].argmax())], float(answer[0, 0])


if __name__ == "__main__":
    d = Deck(["where is the station", "the bill please", "good morning"], [2, 1, 0])
    print(d.suggest(PhraseRecall(20.0), "station"))
