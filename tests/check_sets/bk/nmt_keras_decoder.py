"""Nepali-English translation, decoder side (Keras 3, any backend)."""

import keras
from keras import layers, ops

MAX_SRC = 24


class AttnDecoderCell(layers.Layer):
    """One step of a GRU decoder with additive (Bahdanau) attention.

    The new word and the decoder state are compared with every encoder output; the
    softmax of these energies weighs the encoder outputs.

    call(word [B], state [B, U], memory [B, S, U], src_mask [B, S] bool, True = token)
        -> logits [B, V], new_state [B, U], weights [B, S]
    """

    def __init__(self, vocab, emb_dim, units, max_src=MAX_SRC, **kw):
        super().__init__(**kw)
        self.vocab, self.emb_dim, self.units, self.max_src = vocab, emb_dim, units, max_src
        self.embedding = layers.Embedding(vocab, emb_dim)
        self.attn = layers.Dense(units, activation="tanh")
        self.energy = layers.Dense(max_src)
        self.combine = layers.Dense(units, activation="relu")
        self.gru = layers.GRUCell(units)
        self.out = layers.Dense(vocab)

    def build(self, *shapes, **kw):
        e, u = self.emb_dim, self.units
        self.embedding.build(None)
        self.attn.build((None, e + u))
        self.energy.build((None, u))
        self.combine.build((None, e + u))
        self.gru.build((None, u))
        self.out.build((None, u))

    def call(self, word, state, memory, src_mask=None):
        x = self.embedding(word)
        h = self.attn(ops.concatenate([x, state], axis=-1))
        e = self.energy(h)[:, : ops.shape(memory)[1]]
        if src_mask is not None:
            e = ops.where(src_mask, e, ops.full_like(e, -1e9))
        weights = ops.softmax(e, axis=-1)
        context = ops.einsum("bs,bsu->bu", weights, memory)
        x = self.combine(ops.concatenate([x, context], axis=-1))
        y, state = self.gru(x, state)
        state = state[0] if isinstance(state, (list, tuple)) else state
        return self.out(y), state, weights


class Encoder(keras.Model):
    def __init__(self, vocab, emb_dim, units):
        super().__init__()
        self.embedding = layers.Embedding(vocab, emb_dim)
        self.gru = layers.GRU(units, return_sequences=True, return_state=True)

    def call(self, tokens):
        return self.gru(self.embedding(tokens))


def greedy(encoder, cell, tokens, bos=1, eos=2, limit=30):
    memory, state = encoder(tokens)
    word = ops.full((ops.shape(tokens)[0],), bos, dtype="int32")
    sentence, heat = [], []
    for _ in range(limit):
        logits, state, w = cell(word, state, memory, ops.not_equal(tokens, 0))
        word = ops.cast(ops.argmax(logits, axis=-1), "int32")
        sentence.append(word)
        heat.append(w)
        if bool(ops.all(word == eos)):
            break
    return ops.stack(sentence, 1), ops.stack(heat, 1)


if __name__ == "__main__":
    enc, dec = Encoder(200, 16, 32), AttnDecoderCell(220, 16, 32)
    s, h = greedy(enc, dec, ops.reshape(ops.arange(3, 13), (2, 5)))
    print(s.shape, h.shape)
