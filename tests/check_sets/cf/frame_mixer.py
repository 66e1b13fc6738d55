"""Text tokens look at video frames (numpy inference of the fusion layer).

Cross attention with several heads: every text token distributes a softmax over
the frames of the clip, logits divided by sqrt(head width).  Frames past the end
of a clip get no share.  Weights are a dict with ``q``, ``k``, ``v``, ``o``.
"""
import numpy as np


def to_heads(x, n):
    b, t, c = x.shape
    return np.transpose(x.reshape(b, t, n, c // n), (0, 2, 1, 3))


def from_heads(x):
    b, h, t, d = x.shape
    return np.transpose(x, (0, 2, 1, 3)).reshape(b, t, h * d)


def distribute(logits, present):
    """Shares over the last axis; `present` is True where a frame exists."""
    shares = np.where(present, logits, 0.0)
    return shares / shares.sum(axis=-1, keepdims=True)


class FrameMixer:
    def __init__(self, weights, heads=4):
        self.weights = weights
        self.heads = heads

    @classmethod
    def random(cls, text_dim=32, frame_dim=48, heads=4, seed=0):
        r = np.random.RandomState(seed)
        shapes = {"q": (text_dim, text_dim), "k": (frame_dim, text_dim),
                  "v": (frame_dim, text_dim), "o": (text_dim, text_dim)}
        return cls({n: r.randn(*s) / np.sqrt(s[0]) for n, s in shapes.items()}, heads)

    def attention(self, text, frames, n_frames=None):
        q = to_heads(text @ self.weights["q"], self.heads)
        k = to_heads(frames @ self.weights["k"], self.heads)
        logits = q @ np.swapaxes(k, 2, 3) / np.sqrt(q.shape[-1])
        steps = np.arange(frames.shape[1])
        if n_frames is None:
            n_frames = np.full(frames.shape[0], frames.shape[1])
        present = steps[None, :] < np.asarray(n_frames)[:, None]
        return distribute(logits, present[:, None, None, :])

    def __call__(self, text, frames, n_frames=None):
        """text (B, T, text_dim), frames (B, F, frame_dim), n_frames (B,)"""
        a = self.attention(text, frames, n_frames)
        v = to_heads(frames @ self.weights["v"], self.heads)
        mixed = from_heads(a @ v) @ self.weights["o"]
        return text + mixed
