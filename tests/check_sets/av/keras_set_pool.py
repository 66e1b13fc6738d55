"""Keras 3 layers for the churn model: customers are bags of tickets."""
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable(package="churn")
class TicketPool(layers.Layer):
    """Pools a bag of tickets with `num_seeds` learned queries.

    Input  : (batch, tickets, features), zero padded
    Mask   : (batch, tickets), True for tickets that exist
    Output : (batch, num_seeds, units)
    """

    def __init__(self, units, num_seeds=1, num_heads=2, **kwargs):
        super().__init__(**kwargs)
        if units % num_heads:
            raise ValueError("units must be divisible by num_heads")
        self.units = units
        self.num_seeds = num_seeds
        self.num_heads = num_heads
        self.depth = units // num_heads
        self.supports_masking = True

    def build(self, input_shape):
        self.seeds = self.add_weight(
            shape=(self.num_seeds, self.units), initializer="glorot_uniform", name="seeds")
        self.w_key = layers.Dense(self.units, use_bias=False, name="key")
        self.w_value = layers.Dense(self.units, use_bias=False, name="value")
        self.w_out = layers.Dense(self.units, name="out")
        self.w_key.build(input_shape)
        self.w_value.build(input_shape)
        self.w_out.build((None, self.num_seeds, self.units))

    def _split(self, x, n):
        x = ops.reshape(x, (-1, n, self.num_heads, self.depth))
        return ops.transpose(x, (0, 2, 1, 3))

    def call(self, inputs, mask=None):
        n = ops.shape(inputs)[1]
        q = self._split(ops.expand_dims(self.seeds, 0), self.num_seeds)
        k = self._split(self.w_key(inputs), n)
        v = self._split(self.w_value(inputs), n)
        logits = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2)))
        logits = logits / (float(self.depth) ** 0.5)
        if mask is not None:
            keep = ops.cast(mask, "bool")[:, None, None, :]
            logits = ops.where(keep, logits, -1e30)
        probs = ops.softmax(logits, axis=-1)
        pooled = ops.transpose(ops.matmul(probs, v), (0, 2, 1, 3))
        pooled = ops.reshape(pooled, (-1, self.num_seeds, self.units))
        return self.w_out(pooled)

    def compute_mask(self, inputs, mask=None):
        return None

    def get_config(self):
        cfg = super().get_config()
        cfg.update(units=self.units, num_seeds=self.num_seeds, num_heads=self.num_heads)
        return cfg


def build_model(n_features, units=16):
    bag = keras.Input((None, n_features))
    x = layers.Masking()(bag)
    x = TicketPool(units)(x)
    x = layers.Flatten()(x)
    return keras.Model(bag, layers.Dense(1, activation="sigmoid")(x))
