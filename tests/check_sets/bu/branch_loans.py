"""Public library branches: summarise a reader's loans into a few interests."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops

INTERESTS = 3


@keras.saving.register_keras_serializable("branch")
class ShelfPool(layers.Layer):
    """Learned interests ask, loans answer.

    Call arguments:
        loans: (batch, n, width)
        mask:  (batch, n) bool, True = a real loan, False = padding
    Returns (batch, INTERESTS, width).
    """

    def __init__(self, width, heads=2, interests=INTERESTS, **kw):
        super().__init__(**kw)
        if width % heads:
            raise ValueError("width must be a multiple of heads")
        self.width, self.heads, self.interests = width, heads, interests
        self.supports_masking = True

    def build(self, input_shape):
        w = self.width
        self.seed_vectors = self.add_weight(shape=(self.interests, w), initializer="glorot_uniform", name="seeds")
        self.kernel_k = self.add_weight(shape=(input_shape[-1], w), initializer="glorot_uniform", name="k")
        self.kernel_v = self.add_weight(shape=(input_shape[-1], w), initializer="glorot_uniform", name="v")
        self.kernel_o = self.add_weight(shape=(w, w), initializer="glorot_uniform", name="o")

    def _heads(self, t):
        n = ops.shape(t)[1]
        t = ops.reshape(t, (-1, n, self.heads, self.width // self.heads))
        return ops.transpose(t, (0, 2, 1, 3))

    def call(self, loans, mask=None):
        k = self._heads(ops.matmul(loans, self.kernel_k))
        v = self._heads(ops.matmul(loans, self.kernel_v))
        q = self._heads(ops.expand_dims(self.seed_vectors, 0))
        score = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2)))
        score = score / ops.sqrt(ops.cast(self.width // self.heads, score.dtype))
        if mask is not None:
            pad = 1.0 - ops.cast(mask, score.dtype)
            score = score - 1e9 * pad[:, None, None, :]
        w = ops.softmax(score, axis=-1)
        y = ops.transpose(ops.matmul(w, v), (0, 2, 1, 3))
        return ops.matmul(ops.reshape(y, (-1, self.interests, self.width)), self.kernel_o)

    def compute_mask(self, inputs, mask=None):
        return None

    def get_config(self):
        return {**super().get_config(), "width": self.width, "heads": self.heads, "interests": self.interests}


def next_loan_model(n_titles=50, n=12, width=16):
    ids = keras.Input((n,), dtype="int32")
    emb = layers.Embedding(n_titles, width, mask_zero=True)
    x = ShelfPool(width)(emb(ids))
    x = layers.Flatten()(x)
    return keras.Model(ids, layers.Dense(n_titles)(x))


if __name__ == "__main__":
    next_loan_model().summary()
