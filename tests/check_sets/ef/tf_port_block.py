"""EncoderLayer translated line by line from the TensorFlow 2 tutorial.

Kept conventions of the original:
  * mask is float, shape (batch, 1, 1, seq_len), and 1.0 marks PADDING
    (create_padding_mask gives 1.0 where the id is 0); it is multiplied by
    -1e9 and added to the logits. Each sentence has a token that is not 0.
  * residual, then layer norm with eps 1e-6 (post-norm)
  * call returns the layer output (batch, seq_len, d_model) and the attention
    weights (batch, num_heads, seq_len, seq_len), rows sum to 1
"""
import torch
from torch import nn


def create_padding_mask(seq):
    return (seq == 0).float()[:, None, None, :]


def scaled_dot_product_attention(q, k, v, mask):
    matmul_qk = torch.matmul(q, k.transpose(-2, -1))
    dk = torch.tensor(k.shape[-1], dtype=q.dtype)
    scaled_attention_logits = matmul_qk / torch.sqrt(dk)
    if mask is not None:
        scaled_attention_logits = scaled_attention_logits + (mask * -1e9)
    attention_weights = torch.softmax(scaled_attention_logits, dim=-1)
    return torch.matmul(attention_weights, v), attention_weights


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.num_heads, self.d_model = num_heads, d_model
        self.depth = d_model // num_heads
        self.wq, self.wk = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.wv, self.dense = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def split_heads(self, x, batch_size):
        x = torch.reshape(x, (batch_size, -1, self.num_heads, self.depth))
        return torch.permute(x, (0, 2, 1, 3))

    def forward(self, v, k, q, mask=None):
        batch_size = q.shape[0]
        q = self.split_heads(self.wq(q), batch_size)
        k = self.split_heads(self.wk(k), batch_size)
        v = self.split_heads(self.wv(v), batch_size)
        scaled, attention_weights = scaled_dot_product_attention(q, k, v, mask)
        scaled = torch.permute(scaled, (0, 2, 1, 3))
        concat = torch.reshape(scaled, (batch_size, -1, self.d_model))
        return self.dense(concat), attention_weights


class EncoderLayer(nn.Module):
    def __init__(self, d_model=16, num_heads=2, dff=32, rate=0.1):
        super().__init__()
        self.mha = MultiHeadAttention(d_model, num_heads)
        self.ffn = nn.Sequential(nn.Linear(d_model, dff), nn.ReLU(), nn.Linear(dff, d_model))
        self.layernorm1 = nn.LayerNorm(d_model, eps=1e-6)
        self.layernorm2 = nn.LayerNorm(d_model, eps=1e-6)
        self.dropout1, self.dropout2 = nn.Dropout(rate), nn.Dropout(rate)

    def forward(self, x, mask=None):
        attn_output, weights = self.mha(x, x, x, mask)
        out1 = self.layernorm1(x + self.dropout1(attn_output))
        out2 = self.layernorm2(out1 + self.dropout2(self.ffn(out1)))
        return out2, weights
