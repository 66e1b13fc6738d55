"""Contrastive pre-training of bird-song clips and their field notes (NumPy).

Symmetric InfoNCE as in CLIP, with hand-written gradients; the encoders are two
linear maps because the features are frozen. Everything fits on the laptop.
"""
import numpy as np


def l2norm(x, eps=1e-8):
    n = np.sqrt((x * x).sum(-1, keepdims=True)) + eps
    return x / n, n


def softmax(s, axis):
    s = s - s.max(axis=axis, keepdims=True)
    e = np.exp(s)
    return e / e.sum(axis=axis, keepdims=True)


class ClipHead:
    """query = audio embedding, key = text embedding."""

    def __init__(self, d_audio, d_text, d=32, temperature=0.07, seed=0):
        r = np.random.default_rng(seed)
        self.Wq = r.normal(size=(d_audio, d)) / np.sqrt(d_audio)
        self.Wk = r.normal(size=(d_text, d)) / np.sqrt(d_text)
        self.temperature = temperature

    def forward(self, audio, text):
        """audio (N, d_audio), text (N, d_text), row i of both belongs together.
        Returns the loss and keeps what backward() needs."""
        self.audio, self.text = audio, text
        self.q, self.qn = l2norm(audio @ self.Wq)
        self.k, self.kn = l2norm(text @ self.Wk)
        scores = self.q @ self.k.T / self.temperature
        self.p_a2t = softmax(scores, axis=1)
        self.p_t2a = softmax(scores, axis=0)
        i = np.arange(len(audio))
        la = -np.log(self.p_a2t[i, i] + 1e-12).mean()
        lt = -np.log(self.p_t2a[i, i] + 1e-12).mean()
        return 0.5 * (la + lt)

    def backward(self):
        n = len(self.audio)
        eye = np.eye(n)
        g = 0.5 * ((self.p_a2t - eye) + (self.p_t2a - eye)) / n / self.temperature
        gq, gk = g @ self.k, g.T @ self.q
        # through the normalisation
        gq = (gq - self.q * (gq * self.q).sum(-1, keepdims=True)) / self.qn
        gk = (gk - self.k * (gk * self.k).sum(-1, keepdims=True)) / self.kn
        return self.audio.T @ gq, self.text.T @ gk

    def step(self, lr=0.05):
        dq, dk = self.backward()
        self.Wq -= lr * dq
        self.Wk -= lr * dk


def recall_at(head, audio, text, k=5):
    q, _ = l2norm(audio @ head.Wq)
    t, _ = l2norm(text @ head.Wk)
    order = np.argsort(-(q @ t.T), axis=1)[:, :k]
    return (order == np.arange(len(q))[:, None]).any(1).mean()


if __name__ == "__main__":
    r = np.random.default_rng(1)
    z = r.normal(size=(64, 10))
    a = z @ r.normal(size=(10, 40)) + 0.1 * r.normal(size=(64, 40))
    t = z @ r.normal(size=(10, 30)) + 0.1 * r.normal(size=(64, 30))
    head = ClipHead(40, 30)
    for it in range(60):
        loss = head.forward(a, t)
        head.step()
    print(loss, recall_at(head, a, t))
