import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
from keras import layers, ops


class GridAttention(layers.Layer):
    """Mixes weather-grid cells, then channels (fixed number of cells).

    (batch, cells, channels) -> same shape
    """

    def __init__(self, cells, channels, hidden=32, **kw):
        super().__init__(**kw)
        self.n1 = layers.LayerNormalization(epsilon=1e-6)
        self.n2 = layers.LayerNormalization(epsilon=1e-6)
        self.cell_in = layers.Dense(hidden, activation="gelu")
        self.cell_out = layers.Dense(cells)
        self.chan_in = layers.Dense(hidden, activation="gelu")
        self.chan_out = layers.Dense(channels)

    def call(self, x):
        y = ops.transpose(self.n1(x), (0, 2, 1))
        y = self.cell_out(self.cell_in(y))
        x = x + ops.transpose(y, (0, 2, 1))
        y = self.chan_out(self.chan_in(self.n2(x)))
        return x + y
