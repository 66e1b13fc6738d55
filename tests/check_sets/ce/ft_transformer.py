"""FT-Transformer(Gorishniy 等, 2021)的简化实现,用于表格数据课程大作业。

每个数值特征 x_j 变成一个 token:T_j = b_j + x_j * W_j;类别特征查嵌入表。
在最前面加一个 [CLS],经过若干 Pre-Norm 层后用 [CLS] 预测。
缺失的特征(missing 为 True)不参与注意力:任何 token 都看不到它;[CLS] 永远可见。
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class FeatureTokenizer(nn.Module):
    def __init__(self, n_num, cardinalities, d):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_num, d) * d ** -0.5)
        self.bias = nn.Parameter(torch.randn(n_num + len(cardinalities), d) * d ** -0.5)
        self.tables = nn.ModuleList(nn.Embedding(c, d) for c in cardinalities)
        self.cls = nn.Parameter(torch.randn(1, d) * d ** -0.5)

    def forward(self, x_num, x_cat):
        tokens = [x_num[:, :, None] * self.weight]
        tokens += [tab(x_cat[:, i])[:, None] for i, tab in enumerate(self.tables)]
        t = torch.cat(tokens, dim=1) + self.bias
        return torch.cat([self.cls.expand(len(t), 1, -1), t], dim=1)


class Layer(nn.Module):
    def __init__(self, d, heads, p_attn, p_ff):
        super().__init__()
        self.heads, self.p_attn = heads, p_attn
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.ff1, self.ff2 = nn.Linear(d, 4 * d), nn.Linear(2 * d, d)   # ReGLU
        self.drop = nn.Dropout(p_ff)

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, visible):
        h = self.norm1(x)
        q, k, v = self.split(self.q(h)), self.split(self.k(h)), self.split(self.v(h))
        # visible: True 表示这个 token 可以被看到
        a = F.scaled_dot_product_attention(
            q, k, v, attn_mask=visible[:, None, None, :],
            dropout_p=self.p_attn if self.training else 0.0)
        x = x + self.o(a.transpose(1, 2).flatten(2))
        u, g = self.ff1(self.norm2(x)).chunk(2, dim=-1)
        return x + self.ff2(self.drop(u * F.relu(g)))


class FTTransformer(nn.Module):
    def __init__(self, n_num=5, cardinalities=(4, 7), d=24, heads=4, depth=2,
                 n_out=1, p_attn=0.2, p_ff=0.1):
        super().__init__()
        self.tokenizer = FeatureTokenizer(n_num, cardinalities, d)
        self.layers = nn.ModuleList(Layer(d, heads, p_attn, p_ff) for _ in range(depth))
        self.head = nn.Sequential(nn.LayerNorm(d), nn.ReLU(), nn.Linear(d, n_out))

    def forward(self, x_num, x_cat, missing=None):
        """x_num (B, n_num) 浮点; x_cat (B, n_cat) 整数; missing (B, n_num + n_cat) 布尔。"""
        t = self.tokenizer(torch.nan_to_num(x_num), x_cat)
        visible = torch.ones(t.shape[:2], dtype=torch.bool, device=t.device)
        if missing is not None:
            visible[:, 1:] = ~missing
        for layer in self.layers:
            t = layer(t, visible)
        return self.head(t[:, 0])
