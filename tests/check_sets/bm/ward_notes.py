"""Early warning on the ward: hourly vitals decoder that reads nursing notes.

Keras 3.  The decoder state of the hour is compared with every sentence of the
notes by additive scoring (Bahdanau et al., 2015): state and sentence each go
through a dense layer, the sum of both is scored by one unit.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops

VITALS = ["hr", "rr", "spo2", "sbp", "temp", "gcs"]
HORIZON_H = 12


def carry_forward(values):
    """Last observation carried forward along axis 0 of a nested list (None = missing)."""
    last, out = [0.0] * len(values[0]), []
    for row in values:
        last = [v if v is not None else l for v, l in zip(row, last)]
        out.append(list(last))
    return out


class NoteReader(layers.Layer):
    """call(state, notes, written)

    state    [b, s]      decoder state of this hour
    notes    [b, n, c]   sentence vectors
    written  [b, n] bool True for a real sentence, False for filler

    Returns (context [b, c], weights [b, n]).  The weights say which sentence
    mattered at this hour; they are shown to the nurse.  A patient without any
    sentence gets a zero context and zero weights.
    """

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.for_state = layers.Dense(units, name="for_state")
        self.for_note = layers.Dense(units, use_bias=False, name="for_note")
        self.score = layers.Dense(1, use_bias=False, name="score")

    def build(self, state_shape, notes_shape, written_shape=None):
        self.for_state.build(state_shape)
        self.for_note.build(notes_shape)
        self.score.build(tuple(notes_shape[:-1]) + (self.units,))
        self.built = True

    def call(self, state, notes, written):
        joint = ops.expand_dims(self.for_state(state), 1) + self.for_note(notes)
        e = ops.squeeze(self.score(joint), -1)
        e = ops.where(written, e, -1e9)
        a = ops.softmax(e, axis=-1) * ops.cast(written, e.dtype)
        return ops.einsum("bn,bnc->bc", a, notes), a

    def get_config(self):
        return {**super().get_config(), "units": self.units}


class WardDecoder(keras.Model):
    def __init__(self, hidden=32, note_dim=24, **kwargs):
        super().__init__(**kwargs)
        self.hidden = hidden
        self.cell = layers.GRUCell(hidden)
        self.reader = NoteReader(16)
        self.mix = layers.Dense(hidden, activation="tanh")
        self.risk = layers.Dense(1, activation="sigmoid")
        self.note_dim = note_dim

    def call(self, vitals, notes, written):
        """vitals [b, t, 6] -> (risk [b, t], weights [b, t, n])"""
        b, t = vitals.shape[0], vitals.shape[1]
        state = ops.zeros((b, self.hidden))
        context = ops.zeros((b, self.note_dim))
        risks, maps = [], []
        for hour in range(t):
            x = ops.concatenate([vitals[:, hour], context], -1)
            state, _ = self.cell(x, [state])
            context, w = self.reader(state, notes, written)
            risks.append(self.risk(self.mix(ops.concatenate([state, context], -1))))
            maps.append(w)
        return ops.concatenate(risks, -1), ops.stack(maps, 1)


if __name__ == "__main__":
    import numpy as np

    g = np.random.default_rng(0)
    net = WardDecoder()
    risk, maps = net(ops.convert_to_tensor(g.normal(size=(2, HORIZON_H, len(VITALS))).astype("float32")),
                     ops.convert_to_tensor(g.normal(size=(2, 5, 24)).astype("float32")),
                     ops.convert_to_tensor(np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)))
    print(risk.shape, maps.shape)
