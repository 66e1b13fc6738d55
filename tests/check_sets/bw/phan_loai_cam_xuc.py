"""Phân loại cảm xúc IMDB bằng một khối Transformer (Keras 3).

Bài tập lớn môn Học sâu. Khối gồm self-attention nhiều đầu chuẩn (Vaswani et al.),
Dropout, LayerNorm và mạng feed-forward; sau đó lấy trung bình theo thời gian.
"""
import keras
from keras import layers, ops


class MultiHeadSelfAttention(layers.Layer):
    def __init__(self, embed_dim=32, num_heads=4, **kwargs):
        super().__init__(**kwargs)
        if embed_dim % num_heads != 0:
            raise ValueError("embed_dim phải chia hết cho num_heads")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.projection_dim = embed_dim // num_heads
        self.query_dense = layers.Dense(embed_dim)
        self.key_dense = layers.Dense(embed_dim)
        self.value_dense = layers.Dense(embed_dim)
        self.combine_heads = layers.Dense(embed_dim)

    def attention(self, query, key, value):
        score = ops.matmul(query, ops.swapaxes(key, -1, -2))
        scaled_score = score / ops.sqrt(ops.cast(self.projection_dim, score.dtype))
        weights = ops.softmax(scaled_score, axis=-1)
        return ops.matmul(weights, value), weights

    def separate_heads(self, x, batch_size, seq_len):
        return ops.reshape(x, (batch_size, self.num_heads, seq_len, self.projection_dim))

    def call(self, inputs):
        batch_size, seq_len = ops.shape(inputs)[0], ops.shape(inputs)[1]
        query = self.separate_heads(self.query_dense(inputs), batch_size, seq_len)
        key = self.separate_heads(self.key_dense(inputs), batch_size, seq_len)
        value = self.separate_heads(self.value_dense(inputs), batch_size, seq_len)
        attention, _ = self.attention(query, key, value)
        attention = ops.transpose(attention, (0, 2, 1, 3))
        concat = ops.reshape(attention, (batch_size, seq_len, self.embed_dim))
        return self.combine_heads(concat)


class TransformerBlock(layers.Layer):
    def __init__(self, embed_dim=32, num_heads=4, ff_dim=64, rate=0.1, **kwargs):
        super().__init__(**kwargs)
        self.att = MultiHeadSelfAttention(embed_dim, num_heads)
        self.ffn = keras.Sequential([layers.Dense(ff_dim, activation="relu"),
                                     layers.Dense(embed_dim)])
        self.layernorm1 = layers.LayerNormalization(epsilon=1e-6)
        self.layernorm2 = layers.LayerNormalization(epsilon=1e-6)
        self.dropout1 = layers.Dropout(rate)
        self.dropout2 = layers.Dropout(rate)

    def call(self, inputs, training=False):
        attn_output = self.dropout1(self.att(inputs), training=training)
        out1 = self.layernorm1(inputs + attn_output)
        ffn_output = self.dropout2(self.ffn(out1), training=training)
        return self.layernorm2(out1 + ffn_output)


def tao_mo_hinh(maxlen=40, vocab=200, embed_dim=32):
    inp = keras.Input((maxlen,), dtype="int32")
    vi_tri = ops.arange(maxlen)
    x = layers.Embedding(vocab, embed_dim)(inp) + layers.Embedding(maxlen, embed_dim)(vi_tri)
    x = TransformerBlock(embed_dim)(x)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inp, layers.Dense(2, activation="softmax")(x))
