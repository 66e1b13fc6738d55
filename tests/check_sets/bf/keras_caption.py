"""Image captioning a la Show, Attend and Tell - Keras 3 port of an old TF2 tutorial."""
import keras
from keras import layers, ops


class BahdanauAttention(keras.layers.Layer):
    """Additive attention of Bahdanau et al.: which image regions for the next word?"""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.W1 = layers.Dense(units)
        self.W2 = layers.Dense(units)
        self.V = layers.Dense(1)

    def call(self, features, hidden):
        # features (batch, 64, embedding_dim), hidden (batch, units)
        hidden_with_time_axis = ops.expand_dims(hidden, 1)
        attention_hidden_layer = self.W1(features) + self.W2(hidden_with_time_axis)
        score = self.V(attention_hidden_layer)
        attention_weights = ops.softmax(score, axis=1)
        context_vector = ops.sum(attention_weights * features, axis=1)
        return context_vector, attention_weights


class CNNEncoder(keras.Model):
    def __init__(self, embedding_dim):
        super().__init__()
        self.fc = layers.Dense(embedding_dim, activation="relu")

    def call(self, x):
        return self.fc(x)


class RNNDecoder(keras.Model):
    def __init__(self, embedding_dim, units, vocab_size):
        super().__init__()
        self.units = units
        self.embedding = layers.Embedding(vocab_size, embedding_dim)
        self.gru = layers.GRUCell(units)
        self.fc1 = layers.Dense(units)
        self.fc2 = layers.Dense(vocab_size)
        self.attention = BahdanauAttention(units)

    def call(self, word, features, hidden):
        context, weights = self.attention(features, hidden)
        x = ops.concatenate([context, self.embedding(word)], axis=-1)
        out, state = self.gru(x, [hidden])
        return self.fc2(self.fc1(out)), state[0], weights

    def reset_state(self, batch_size):
        return ops.zeros((batch_size, self.units))


def greedy_caption(encoder, decoder, image_features, start, length=5):
    f = encoder(image_features)
    h = decoder.reset_state(f.shape[0])
    word = ops.full((f.shape[0],), start, dtype="int32")
    words = []
    for _ in range(length):
        logits, h, _ = decoder(word, f, h)
        word = ops.argmax(logits, axis=-1)
        words.append(word)
    return ops.stack(words, axis=1)
