# Re-implementation of "A TensorFlow Implementation of the Transformer" in PyTorch 0.4
# https://www.github.com/... (hp.py, data_load.py omitted)
import torch
import torch.nn as nn
import torch.nn.functional as F


class hp:
    hidden_units = 24
    num_heads = 3
    dropout_rate = 0.1
    maxlen = 10


class layer_normalization(nn.Module):

    def __init__(self, features, epsilon=1e-8):
        super(layer_normalization, self).__init__()
        self.epsilon = epsilon
        self.gamma = nn.Parameter(torch.ones(features))
        self.beta = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return self.gamma * (x - mean) / (std + self.epsilon) + self.beta


class multihead_attention(nn.Module):

    def __init__(self, num_units, num_heads=8, dropout_rate=0, causality=False):
        '''Applies multihead attention.
        Args:
            num_units: A scalar. Attention size.
            dropout_rate: A floating point number.
            causality: Boolean. If true, units that reference the future are masked.
            num_heads: An int. Number of heads.
        '''
        super(multihead_attention, self).__init__()
        self.num_units = num_units
        self.num_heads = num_heads
        self.dropout_rate = dropout_rate
        self.causality = causality
        self.Q_proj = nn.Sequential(nn.Linear(num_units, num_units), nn.ReLU())
        self.K_proj = nn.Sequential(nn.Linear(num_units, num_units), nn.ReLU())
        self.V_proj = nn.Sequential(nn.Linear(num_units, num_units), nn.ReLU())
        self.output_dropout = nn.Dropout(p=self.dropout_rate)
        self.normalization = layer_normalization(num_units)

    def forward(self, queries, keys, key_lens=None):
        # keys, values: (N, T_k, C); queries: (N, T_q, C); key_lens: (N,) number of real keys, >= 1
        Q = self.Q_proj(queries)
        K = self.K_proj(keys)
        V = self.V_proj(keys)

        # Split and concat
        Q_ = torch.cat(torch.chunk(Q, self.num_heads, dim=2), dim=0)  # (h*N, T_q, C/h)
        K_ = torch.cat(torch.chunk(K, self.num_heads, dim=2), dim=0)  # (h*N, T_k, C/h)
        V_ = torch.cat(torch.chunk(V, self.num_heads, dim=2), dim=0)  # (h*N, T_k, C/h)

        outputs = torch.bmm(Q_, K_.permute(0, 2, 1))  # (h*N, T_q, T_k)
        outputs = outputs / (K_.size()[-1] ** 0.5)

        # Key Masking
        if key_lens is not None:
            steps = torch.arange(keys.size()[1], device=keys.device)
            key_masks = (steps[None, :] < key_lens[:, None]).float()        # (N, T_k)
            key_masks = key_masks.repeat_interleave(self.num_heads, dim=0)  # (h*N, T_k)
            key_masks = key_masks.unsqueeze(1).expand(-1, queries.size()[1], -1)
            paddings = torch.ones_like(outputs) * (-2 ** 32 + 1)
            outputs = torch.where(key_masks == 0, paddings, outputs)

        # Causality = Future blinding
        if self.causality:
            diag_vals = torch.ones_like(outputs[0, :, :])
            tril = torch.tril(diag_vals)
            masks = tril.unsqueeze(0).expand(outputs.size()[0], -1, -1)
            paddings = torch.ones_like(masks) * (-2 ** 32 + 1)
            outputs = torch.where(masks == 0, paddings, outputs)

        outputs = F.softmax(outputs, dim=-1)
        outputs = self.output_dropout(outputs)
        outputs = torch.bmm(outputs, V_)  # (h*N, T_q, C/h)
        outputs = torch.cat(torch.chunk(outputs, self.num_heads, dim=0), dim=2)  # (N, T_q, C)
        outputs += queries
        return self.normalization(outputs)


class feedforward(nn.Module):

    def __init__(self, in_channels, num_units=[2048, 512]):
        super(feedforward, self).__init__()
        self.conv1 = nn.Sequential(nn.Conv1d(in_channels, num_units[0], 1), nn.ReLU())
        self.conv2 = nn.Conv1d(num_units[0], num_units[1], 1)
        self.normalization = layer_normalization(in_channels)

    def forward(self, inputs):
        y = self.conv2(self.conv1(inputs.permute(0, 2, 1))).permute(0, 2, 1)
        return self.normalization(y + inputs)
