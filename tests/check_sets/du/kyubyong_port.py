"""Kyubyong/transformer (TensorFlow 1) multihead_attention -> PyTorch.

TF original: the heads are split off the last axis and stacked along the batch
    Q_ = tf.concat(tf.split(Q, num_heads, axis=2), axis=0)    # (h*N, T_q, d_model/h)
and after the attention they are put back side by side, (N, T_q, d_model), followed by the
residual and layer norm.  I want the same values given the same kernels.
"""
import torch
import torch.nn as nn


class MultiheadAttention(nn.Module):
    """
    queries    (N, T_q, d_model)
    keys       (N, T_k, d_model), also used as values
    key_masks  (N, T_k) bool, True = PAD, must not be attended to; never a whole row
    causality  True: future blinding, for T_q == T_k (token t sees the tokens up to t)
    returns    (N, T_q, d_model)
    """

    def __init__(self, d_model=64, num_heads=8, dropout_rate=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.dense_q = nn.Linear(d_model, d_model)
        self.dense_k = nn.Linear(d_model, d_model)
        self.dense_v = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout_rate)
        self.ln = nn.LayerNorm(d_model)

    def forward(self, queries, keys, key_masks=None, causality=False):
        N, T_q, d_model = queries.shape
        T_k = keys.size(1)
        h, d = self.num_heads, d_model // self.num_heads

        Q_ = torch.cat(self.dense_q(queries).split(d, dim=2), dim=0)
        K_ = torch.cat(self.dense_k(keys).split(d, dim=2), dim=0)
        V_ = torch.cat(self.dense_v(keys).split(d, dim=2), dim=0)

        outputs = torch.bmm(Q_, K_.transpose(1, 2)) / d ** 0.5
        if key_masks is not None:
            tiled = key_masks.repeat(h, 1)[:, None, :]          # (h*N, 1, T_k)
            outputs = outputs.masked_fill(tiled, -2 ** 32 + 1)
        if causality:
            future = torch.ones(T_q, T_k, device=queries.device).triu(1).bool()
            outputs = outputs.masked_fill(future, -2 ** 32 + 1)
        outputs = self.dropout(torch.softmax(outputs, dim=-1))
        outputs = torch.bmm(outputs, V_)

        outputs = outputs.view(N, h, T_q, d).transpose(1, 2)
        outputs = outputs.reshape(N, T_q, d_model)
        return self.ln(outputs + queries)
