"""BERT 编码器的函数式移植:权重放在一个 dict 里,键名与 HuggingFace 相同。

用法:
    W = torch.load("pytorch_model.bin")
    h = bert_encode(ids, mask, W, n_layers=12, n_heads=12)

mask: 1 表示真实 token,0 表示填充。
"""
import torch
import torch.nn.functional as F


def _linear(x, W, name):
    return F.linear(x, W[name + ".weight"], W[name + ".bias"])


def _ln(x, W, name):
    return F.layer_norm(x, x.shape[-1:], W[name + ".weight"], W[name + ".bias"], 1e-12)


def _self_attention(x, bias, W, p, n_heads):
    b, n, c = x.shape
    d = c // n_heads

    def heads(name):  # [b, n, c] -> [b, h, n, d]
        t = _linear(x, W, f"{p}.attention.self.{name}")
        return t.reshape(b, n, n_heads, d).permute(0, 2, 1, 3)

    q, k, v = heads("query"), heads("key"), heads("value")
    logits = torch.einsum("bhid,bhjd->bhij", q, k) / d ** 0.5
    # 填充位置加一个很大的负数
    p_attn = torch.softmax(logits + bias, dim=-1)
    ctx = torch.einsum("bhij,bhjd->bihd", p_attn, v)
    return ctx.reshape(b, n, c)


def bert_layer(x, bias, W, p, n_heads):
    # 后置 LayerNorm(原版 BERT)
    a = _self_attention(x, bias, W, p, n_heads)
    a = _linear(a, W, f"{p}.attention.output.dense")
    x = _ln(x + a, W, f"{p}.attention.output.LayerNorm")
    h = F.gelu(_linear(x, W, f"{p}.intermediate.dense"))
    h = _linear(h, W, f"{p}.output.dense")
    return _ln(x + h, W, f"{p}.output.LayerNorm")


def bert_encode(ids, mask, W, n_layers=2, n_heads=4, token_type=None):
    n = ids.shape[1]
    if token_type is None:
        token_type = torch.zeros_like(ids)
    e = "embeddings"
    x = (W[f"{e}.word_embeddings.weight"][ids]
         + W[f"{e}.position_embeddings.weight"][:n]
         + W[f"{e}.token_type_embeddings.weight"][token_type])
    x = _ln(x, W, f"{e}.LayerNorm")
    # 加性掩码: 0 保留, dtype 的最小值丢弃
    bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
    for i in range(n_layers):
        x = bert_layer(x, bias, W, f"encoder.layer.{i}", n_heads)
    return x


def random_weights(vocab=50, c=32, n_layers=2, max_len=40, seed=0):
    """没有下载权重时用的随机参数。"""
    g = torch.Generator().manual_seed(seed)
    W = {}

    def lin(name, i, o):
        W[name + ".weight"] = torch.randn(o, i, generator=g) / i ** 0.5
        W[name + ".bias"] = torch.randn(o, generator=g) * 0.1

    def ln(name):
        W[name + ".weight"], W[name + ".bias"] = torch.ones(c), torch.zeros(c)

    for n, rows in (("word", vocab), ("position", max_len), ("token_type", 2)):
        W[f"embeddings.{n}_embeddings.weight"] = torch.randn(rows, c, generator=g)
    ln("embeddings.LayerNorm")
    for i in range(n_layers):
        p = f"encoder.layer.{i}"
        for m in ("query", "key", "value"):
            lin(f"{p}.attention.self.{m}", c, c)
        lin(f"{p}.attention.output.dense", c, c)
        ln(f"{p}.attention.output.LayerNorm")
        lin(f"{p}.intermediate.dense", c, 4 * c)
        lin(f"{p}.output.dense", 4 * c, c)
        ln(f"{p}.output.LayerNorm")
    return W


if __name__ == "__main__":
    W = random_weights()
    ids = torch.randint(0, 50, (2, 7))
    mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
    print(bert_encode(ids, mask, W).shape)
