"""Daily streamflow from meteorological forcing (CAMELS), after Kratzert et al. (2018/2019).

EA-LSTM: the input gate is computed once from the static catchment attributes, so every
basin picks its own memory cells. Keras 3 cell + a mean over the last week.
"""
import keras
from keras import layers, ops


class EALSTMCell(layers.Layer):
    """Entity-aware LSTM cell. Inputs per step: concat(dynamic, input_gate)."""

    def __init__(self, units, n_dynamic, forget_bias=3.0, **kw):
        super().__init__(**kw)
        self.units, self.n_dynamic, self.forget_bias = units, n_dynamic, forget_bias
        self.state_size = [units, units]
        self.output_size = units

    def build(self, input_shape):
        u = self.units
        self.kernel = self.add_weight(shape=(self.n_dynamic, 3 * u), initializer="glorot_uniform", name="kernel")
        self.recurrent = self.add_weight(shape=(u, 3 * u), initializer="orthogonal", name="recurrent")
        self.bias = self.add_weight(shape=(3 * u,), initializer="zeros", name="bias")

    def call(self, inputs, states, training=None):
        h, c = states
        x, i = inputs[:, : self.n_dynamic], inputs[:, self.n_dynamic:]
        f, g, o = ops.split(ops.matmul(x, self.kernel) + ops.matmul(h, self.recurrent) + self.bias, 3, axis=-1)
        c = ops.sigmoid(f + self.forget_bias) * c + i * ops.tanh(g)
        h = ops.sigmoid(o) * ops.tanh(c)
        return h, [h, c]


class EALSTM(layers.Layer):
    """dynamic (B, T, F), static (B, S) -> mean of the last `tail` hidden states (B, units)"""

    def __init__(self, units, n_dynamic, tail=7, **kw):
        super().__init__(**kw)
        self.gate = layers.Dense(units, activation="sigmoid")
        self.rnn = layers.RNN(EALSTMCell(units, n_dynamic), return_sequences=True)
        self.tail = tail

    def call(self, dynamic, static):
        gate = self.gate(static)
        gate = ops.repeat(gate[:, None, :], ops.shape(dynamic)[1], axis=1)
        h = self.rnn(ops.concatenate([dynamic, gate], axis=-1))
        return ops.mean(h[:, -self.tail:], axis=1)


def build(n_dynamic=5, n_static=27, units=32, days=60):
    dyn = keras.Input((days, n_dynamic))
    sta = keras.Input((n_static,))
    h = EALSTM(units, n_dynamic)(dyn, sta)
    q = layers.Dense(1, activation="softplus")(layers.Dropout(0.4)(h))
    return keras.Model([dyn, sta], q)


def nse_loss(y_true, y_pred, std):
    """basin-averaged Nash-Sutcliffe efficiency (1 - NSE up to a constant)"""
    return ops.mean(ops.square(y_pred - y_true) / ops.square(std + 0.1))
