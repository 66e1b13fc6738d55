"""Sign language video -> gloss, seq2seq with attention (Keras 3 port of the PFE project).

Attention de Bahdanau : score(s, h_j) = v . tanh(W s + U h_j), softmax sur les images.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
from keras import layers, ops


class BahdanauAttention(layers.Layer):
    """query (B, units_q) état du décodeur, values (B, T, units_v) sorties de l'encodeur.

    Retourne le contexte (B, units_v) et les poids (B, T).
    mask (B, T) : True pour une vraie image de la vidéo.
    """

    def __init__(self, units, **kw):
        super().__init__(**kw)
        self.units = units
        self.W = layers.Dense(units, name="W")
        self.U = layers.Dense(units, use_bias=False, name="U")
        self.v = layers.Dense(1, name="v")

    def call(self, query, values, mask=None):
        q = ops.expand_dims(query, 1)
        score = self.v(self.W(q) + self.U(values))
        score = ops.squeeze(score, -1)
        if mask is not None:
            score = ops.where(mask, score, -1e9)
        alpha = ops.softmax(score, axis=1)
        context = ops.sum(ops.expand_dims(alpha, -1) * values, axis=1)
        return context, alpha


class GlossDecoder(keras.Model):
    def __init__(self, glosses, emb=32, units=48):
        super().__init__()
        self.embedding = layers.Embedding(glosses, emb)
        self.cell = layers.GRUCell(units)
        self.attention = BahdanauAttention(32)
        self.fc = layers.Dense(glosses)
        self.units = units

    def step(self, token, state, frames, mask=None):
        context, alpha = self.attention(state, frames, mask)
        x = ops.concatenate([context, self.embedding(token)], axis=-1)
        out, state = self.cell(x, state)
        return self.fc(out), state, alpha

    def call(self, tokens, frames, mask=None):
        state = ops.zeros((ops.shape(frames)[0], self.units))
        logits = []
        for t in range(tokens.shape[1]):
            y, state, _ = self.step(tokens[:, t], state, frames, mask)
            logits.append(y)
        return ops.stack(logits, axis=1)

    def greedy(self, frames, bos, eos, max_len=20):
        state = ops.zeros((1, self.units))
        tok, out = ops.convert_to_tensor([bos]), []
        for _ in range(max_len):
            y, state, _ = self.step(tok, state, frames)
            tok = ops.argmax(y, axis=-1)
            if int(tok[0]) == eos:
                break
            out.append(int(tok[0]))
        return out


def encoder(points=54, units=48):
    """points du squelette (x, y) par image -> états du GRU bidirectionnel"""
    inp = keras.Input((None, 2 * points))
    h = layers.Dense(64, activation="relu")(inp)
    h = layers.Bidirectional(layers.GRU(units // 2, return_sequences=True))(h)
    return keras.Model(inp, h)
