# SASRec in PyTorch. Item 0 is padding; histories are padded on the left.
import numpy as np
import torch


class PointWiseFeedForward(torch.nn.Module):
    def __init__(self, hidden_units, dropout_rate):
        super(PointWiseFeedForward, self).__init__()
        self.conv1 = torch.nn.Conv1d(hidden_units, hidden_units, kernel_size=1)
        self.dropout1 = torch.nn.Dropout(p=dropout_rate)
        self.relu = torch.nn.ReLU()
        self.conv2 = torch.nn.Conv1d(hidden_units, hidden_units, kernel_size=1)
        self.dropout2 = torch.nn.Dropout(p=dropout_rate)

    def forward(self, inputs):
        o = self.dropout2(self.conv2(self.relu(self.dropout1(self.conv1(inputs.transpose(-1, -2))))))
        return o.transpose(-1, -2)


class SASRec(torch.nn.Module):
    def __init__(self, item_num, maxlen=20, hidden_units=24, num_blocks=2, num_heads=2, dropout_rate=0.2):
        super(SASRec, self).__init__()
        self.item_num = item_num
        self.maxlen = maxlen
        self.item_emb = torch.nn.Embedding(item_num + 1, hidden_units, padding_idx=0)
        self.pos_emb = torch.nn.Embedding(maxlen + 1, hidden_units, padding_idx=0)
        self.emb_dropout = torch.nn.Dropout(p=dropout_rate)
        self.attention_layernorms = torch.nn.ModuleList()
        self.attention_layers = torch.nn.ModuleList()
        self.forward_layernorms = torch.nn.ModuleList()
        self.forward_layers = torch.nn.ModuleList()
        self.last_layernorm = torch.nn.LayerNorm(hidden_units, eps=1e-8)
        for _ in range(num_blocks):
            self.attention_layernorms.append(torch.nn.LayerNorm(hidden_units, eps=1e-8))
            self.attention_layers.append(torch.nn.MultiheadAttention(hidden_units, num_heads, dropout_rate))
            self.forward_layernorms.append(torch.nn.LayerNorm(hidden_units, eps=1e-8))
            self.forward_layers.append(PointWiseFeedForward(hidden_units, dropout_rate))

    def log2feats(self, log_seqs):
        """log_seqs: LongTensor or array (B, T)"""
        dev = self.item_emb.weight.device
        log_seqs = torch.as_tensor(np.asarray(log_seqs), dtype=torch.long, device=dev)
        B, tl = log_seqs.shape
        seqs = self.item_emb(log_seqs)
        seqs *= self.item_emb.embedding_dim ** 0.5
        # positions count from the most recent item, so the amount of left padding does not matter
        poss = torch.arange(tl, 0, -1, device=dev).unsqueeze(0) * (log_seqs != 0)
        seqs = seqs + self.pos_emb(poss)
        seqs = self.emb_dropout(seqs)
        timeline_mask = log_seqs == 0
        seqs = seqs * ~timeline_mask.unsqueeze(-1)

        future = torch.triu(torch.ones((tl, tl), dtype=torch.bool, device=dev), diagonal=1)
        # a padded query may look at itself, otherwise its row would be empty
        blocked = future.unsqueeze(0) | timeline_mask.unsqueeze(1)
        blocked = blocked & ~torch.eye(tl, dtype=torch.bool, device=dev)
        blocked = blocked.repeat_interleave(self.attention_layers[0].num_heads, dim=0)

        for i in range(len(self.attention_layers)):
            seqs = torch.transpose(seqs, 0, 1)
            Q = self.attention_layernorms[i](seqs)
            mha_outputs, _ = self.attention_layers[i](Q, seqs, seqs, attn_mask=blocked, need_weights=False)
            seqs = Q + mha_outputs
            seqs = torch.transpose(seqs, 0, 1)
            seqs = self.forward_layernorms[i](seqs)
            seqs = seqs + self.forward_layers[i](seqs)
            seqs = seqs * ~timeline_mask.unsqueeze(-1)
        return self.last_layernorm(seqs)

    def forward(self, log_seqs, pos_seqs, neg_seqs):
        feats = self.log2feats(log_seqs)
        pos = (feats * self.item_emb(pos_seqs)).sum(-1)
        neg = (feats * self.item_emb(neg_seqs)).sum(-1)
        return pos, neg

    def predict(self, log_seqs, item_indices):
        final = self.log2feats(log_seqs)[:, -1, :]
        return self.item_emb(item_indices).matmul(final.unsqueeze(-1)).squeeze(-1)
