"""Keras 3: recipe titles from photos.  GRU decoder that looks at the image grid."""
import keras
from keras import layers, ops


class GridAttention(layers.Layer):
    """Bahdanau attention: for each region a score from the decoder state and that
    region, softmax over the regions, weighted sum of the regions.

    call(state [B, S], regions [B, R, F]) -> context [B, F], weights [B, R]
    """

    def __init__(self, units, max_regions=64, **kw):
        super().__init__(**kw)
        self.units = units
        self.max_regions = max_regions
        self.w_state = layers.Dense(units)
        self.score = layers.Dense(max_regions)

    def build(self, state_shape, regions_shape=None):
        self.w_state.build(state_shape)
        self.score.build((None, self.units))

    def call(self, state, regions):
        hidden = ops.tanh(self.w_state(state))
        scores = self.score(hidden)[:, : ops.shape(regions)[1]]
        weights = ops.softmax(scores, axis=-1)
        context = ops.sum(ops.expand_dims(weights, -1) * regions, axis=1)
        return context, weights


class TitleDecoder(keras.Model):
    def __init__(self, vocab, units=32, emb=16, max_regions=64):
        super().__init__()
        self.units = units
        self.embed = layers.Embedding(vocab, emb)
        self.attend = GridAttention(units, max_regions)
        self.cell = layers.GRUCell(units)
        self.fc = layers.Dense(units, activation="relu")
        self.out = layers.Dense(vocab)

    def step(self, token, regions, state):
        context, weights = self.attend(state, regions)
        x = ops.concatenate([self.embed(token), context], axis=-1)
        y, states = self.cell(x, [state])
        return self.out(self.fc(y)), states[0], weights

    def call(self, inputs):
        regions, titles = inputs
        state = ops.zeros((ops.shape(regions)[0], self.units))
        logits = []
        for t in range(titles.shape[1]):
            l, state, _ = self.step(titles[:, t], regions, state)
            logits.append(l)
        return ops.stack(logits, axis=1)


def masked_loss(y_true, logits):
    l = keras.losses.sparse_categorical_crossentropy(y_true, logits, from_logits=True)
    m = ops.cast(y_true != 0, l.dtype)
    return ops.sum(l * m) / ops.maximum(ops.sum(m), 1.0)


def grid_from_feature_map(fmap):
    """[B, H, W, C] -> [B, H*W, C]"""
    s = ops.shape(fmap)
    return ops.reshape(fmap, (s[0], s[1] * s[2], s[3]))
