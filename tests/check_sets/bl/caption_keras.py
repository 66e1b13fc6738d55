# Image captioning (Show, Attend and Tell), Keras 3
# Kaggle notebook "flickr8k with attention", cells 7-11

import os
os.environ["KERAS_BACKEND"] = os.environ.get("KERAS_BACKEND", "torch")

import numpy as np
import keras
from keras import ops

EMB = 32
UNITS = 48
ATT = 24
VOCAB = 500


class BahdanauAttention(keras.layers.Layer):
    '''
    features: (batch, locations, channels) from the CNN
    hidden:   (batch, units), state of the decoder
    mask:     optional (batch, locations), True = keep this location

    returns context (batch, channels) and the weights (batch, locations, 1)
    '''
    def __init__(self, units, **kw):
        super().__init__(**kw)
        self.units = units
        self.W1 = keras.layers.Dense(units)
        self.W2 = keras.layers.Dense(units)
        self.V = keras.layers.Dense(1)

    def build(self, features_shape, hidden_shape=None):
        self.W1.build(features_shape)
        self.V.build((None, None, self.units))
        if hidden_shape is not None:
            self.W2.build((hidden_shape[0], 1, hidden_shape[1]))
        self.built = True

    def call(self, features, hidden, mask=None):
        # hidden shape == (batch, units) -> (batch, 1, units)
        hidden_with_time_axis = ops.expand_dims(hidden, 1)

        # score shape == (batch, locations, 1)
        score = self.V(ops.tanh(self.W1(features) + self.W2(hidden_with_time_axis)))
        if mask is not None:
            score = ops.where(ops.expand_dims(mask, -1), score, -1e9)

        # softmax over the locations
        attention_weights = ops.softmax(score, axis=1)

        context_vector = ops.sum(attention_weights * features, axis=1)
        return context_vector, attention_weights


class Decoder(keras.Model):
    def __init__(self, embedding_dim=EMB, units=UNITS, vocab_size=VOCAB):
        super().__init__()
        self.units = units
        self.embedding = keras.layers.Embedding(vocab_size, embedding_dim)
        self.gru = keras.layers.GRUCell(units)
        self.fc1 = keras.layers.Dense(units)
        self.fc2 = keras.layers.Dense(vocab_size)
        self.attention = BahdanauAttention(ATT)

    def call(self, word, features, hidden):
        context, weights = self.attention(features, hidden)
        # gate, section 4.2.1 of the paper, left out: no gain on flickr8k
        x = ops.concatenate([context, self.embedding(word)], axis=-1)
        out, state = self.gru(x, [hidden])
        return self.fc2(ops.relu(self.fc1(out))), state[0], weights

    def reset_state(self, batch_size):
        return ops.zeros((batch_size, self.units))


def greedy_caption(decoder, features, start=1, end=2, max_len=20):
    hidden = decoder.reset_state(1)
    word = np.array([start])
    result, plot = [], []
    for _ in range(max_len):
        logits, hidden, w = decoder(word, features, hidden)
        plot.append(ops.convert_to_numpy(w)[0, :, 0])
        word = np.array([int(ops.argmax(logits[0]))])
        if word[0] == end:
            break
        result.append(int(word[0]))
    return result, np.array(plot)


if __name__ == '__main__':
    feats = np.random.rand(1, 64, 40).astype('float32')
    caption, plot = greedy_caption(Decoder(), feats)
    print(caption, plot.shape)
