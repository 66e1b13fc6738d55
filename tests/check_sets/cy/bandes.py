import keras
from keras import ops


class Bandes(keras.layers.Layer):
    """Attention entre canaux (bandes spectrales) d'une image satellite (B, C, H, W).

    Les requetes et cles sont normees le long des pixels ; une temperature apprise
    par tete. Chaque canal est une moyenne ponderee des canaux de sa tete.
    """

    def __init__(self, canaux, tetes=2, **kw):
        super().__init__(**kw)
        self.canaux, self.tetes = canaux, tetes
        self.qkv = keras.layers.Dense(3 * canaux, use_bias=False)
        self.proj = keras.layers.Dense(canaux)

    def build(self, forme):
        self.temp = self.add_weight(name="temp", shape=(self.tetes, 1, 1), initializer="ones")
        self.qkv.build((None, None, self.canaux))
        self.proj.build((None, None, self.canaux))

    def call(self, img):
        b, c, h, w = img.shape
        x = ops.transpose(ops.reshape(img, (b, c, h * w)), (0, 2, 1))
        t = ops.reshape(self.qkv(x), (b, h * w, 3, self.tetes, c // self.tetes))
        t = ops.transpose(t, (2, 0, 3, 4, 1))                    # 3, B, T, c/T, HW
        q, k, v = t[0], t[1], t[2]
        q = q / (ops.norm(q, axis=-1, keepdims=True) + 1e-6)
        k = k / (ops.norm(k, axis=-1, keepdims=True) + 1e-6)
        a = ops.softmax(ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) * self.temp, axis=-1)
        y = ops.reshape(ops.matmul(a, v), (b, c, h * w))
        y = self.proj(ops.transpose(y, (0, 2, 1)))
        return img + ops.reshape(ops.transpose(y, (0, 2, 1)), (b, c, h, w))
