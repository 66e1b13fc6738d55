"""Train in PyTorch, run on the drone in NumPy.

The drone's board has no torch.  ``CrevasseBlock`` is what we train (pre-norm ViT block,
QK-norm, a few register tokens at the front); ``DroneAttention`` is the same attention in
NumPy and reads the arrays that ``export`` has written.
"""
import numpy as np

try:
    import torch
    from torch import nn
except ImportError:           # on the drone
    torch = nn = None

EPS = 1e-6

if nn is not None:

    class CrevasseBlock(nn.Module):
        def __init__(self, dim=48, heads=4, registers=3):
            super().__init__()
            self.heads = heads
            hd = dim // heads
            self.registers = nn.Parameter(torch.randn(registers, dim) * 0.02)
            self.norm = nn.LayerNorm(dim, eps=EPS)
            self.qkv = nn.Linear(dim, 3 * dim)
            self.q_norm = nn.LayerNorm(hd, eps=EPS)
            self.k_norm = nn.LayerNorm(hd, eps=EPS)
            self.proj = nn.Linear(dim, dim)
            self.ls = nn.Parameter(torch.full((dim,), 0.1))

        def forward(self, x):
            """x [B, N, dim] patches -> [B, registers + N, dim]"""
            x = torch.cat([self.registers.expand(x.shape[0], -1, -1), x], 1)
            B, N, C = x.shape
            qkv = self.qkv(self.norm(x)).reshape(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            q, k, v = qkv.unbind(0)
            y = nn.functional.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
            return x + self.ls * self.proj(y.transpose(1, 2).reshape(B, N, C))


def export(block):
    out = {k: t.detach().cpu().numpy() for k, t in block.state_dict().items()}
    out["heads"] = np.array(block.heads)
    return out


def _ln(x, w, b):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / np.sqrt(v + EPS) * w + b


class DroneAttention:
    """NumPy twin of CrevasseBlock; works through the queries in strips to save memory."""

    def __init__(self, arrays, strip=8):
        self.a = {k: np.asarray(v) for k, v in arrays.items()}
        self.heads = int(self.a["heads"])
        self.strip = strip

    def _split(self, t):
        n = t.shape[0]
        return t.reshape(n, self.heads, -1).swapaxes(0, 1)          # heads, n, hd

    def _one(self, x):
        a = self.a
        x = np.concatenate([a["registers"], x], 0)
        h = _ln(x, a["norm.weight"], a["norm.bias"])
        h = h @ a["qkv.weight"].T + a["qkv.bias"]
        q, k, v = (self._split(t) for t in np.split(h, 3, axis=-1))
        q = _ln(q, a["q_norm.weight"], a["q_norm.bias"])
        k = _ln(k, a["k_norm.weight"], a["k_norm.bias"])
        q = q / np.sqrt(q.shape[-1])
        kt = k.swapaxes(1, 2)
        y = np.empty_like(v)
        for i in range(0, x.shape[0], self.strip):
            s = q[:, i:i + self.strip] @ kt
            s -= s.max(-1, keepdims=True)
            np.exp(s, out=s)
            y[:, i:i + self.strip] = (s @ v) / s.sum(-1, keepdims=True)
        y = y.swapaxes(0, 1).reshape(x.shape)
        return x + a["ls"] * (y @ a["proj.weight"].T + a["proj.bias"])

    def __call__(self, x):
        """x [B, N, dim] -> [B, registers + N, dim]"""
        return np.stack([self._one(f) for f in x])


def compare(seed=0):
    torch.manual_seed(seed)
    blk = CrevasseBlock().eval()
    x = torch.randn(2, 21, 48)
    with torch.no_grad():
        want = blk(x).numpy()
    got = DroneAttention(export(blk))(x.numpy())
    return float(np.abs(want - got).max())


if __name__ == "__main__":
    print("largest difference", compare())
