import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
from keras import ops


class RoadSensorMixer(keras.layers.Layer):
    """Sensors of a road network exchange information at each time step.

    Input (batch, time, sensor, channel), output the same shape.
    `adjacency` (sensor, sensor), non-zero at [i, j] when sensor i may listen to sensor j; every
    sensor also listens to itself. The result of each head is multiplied by a sigmoid gate
    computed from the listening sensor before the output projection.
    """

    def __init__(self, adjacency, heads=4, **kwargs):
        super().__init__(**kwargs)
        a = ops.convert_to_numpy(adjacency) != 0
        for i in range(a.shape[0]):
            a[i, i] = True
        self.listen = a
        self.heads = heads

    def build(self, shape):
        c = shape[-1]
        self.hd = c // self.heads
        self.wq, self.wk, self.wv, self.wg = [
            self.add_weight(shape=(c, self.heads, self.hd), initializer="glorot_uniform", name=n)
            for n in ("wq", "wk", "wv", "wg")]
        self.wo = self.add_weight(shape=(self.heads, self.hd, c), initializer="glorot_uniform", name="wo")

    def call(self, x):
        q = ops.einsum("btnc,chd->bthnd", x, self.wq)
        k = ops.einsum("btnc,chd->bthnd", x, self.wk)
        v = ops.einsum("btnc,chd->bthnd", x, self.wv)
        gate = ops.sigmoid(ops.einsum("btnc,chd->bthnd", x, self.wg))
        s = ops.einsum("bthid,bthjd->bthij", q, k) / self.hd ** 0.5
        s = ops.where(ops.convert_to_tensor(self.listen), s, -float("inf"))
        y = ops.einsum("bthij,bthjd->bthid", ops.softmax(s, axis=-1), v) * gate
        return ops.einsum("bthid,hdc->btic", y, self.wo)
