"""Baseline for the sentiment task: bidirectional LSTM with max pooling."""
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class LSTMClassifier(nn.Module):
    """
    tokens:  (batch, seq) word ids, 0 = padding
    lengths: (batch,) number of words
    returns log-probabilities (batch, num_classes)
    """

    def __init__(self, vocab_size, embed_dim=50, hidden_dim=64, num_classes=2, dropout=0.3):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, embed_dim, padding_idx=0)
        self.lstm = nn.LSTM(embed_dim, hidden_dim, num_layers=2, bidirectional=True,
                            batch_first=True, dropout=dropout)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(2 * hidden_dim, num_classes)

    def forward(self, tokens, lengths):
        e = self.dropout(self.embed(tokens))
        packed = pack_padded_sequence(e, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = self.lstm(packed)
        out, _ = pad_packed_sequence(out, batch_first=True, total_length=tokens.size(1))

        pad = torch.arange(tokens.size(1), device=tokens.device)[None, :] >= lengths[:, None]
        out = out.masked_fill(pad.unsqueeze(-1), float("-inf"))
        pooled = out.max(dim=1).values
        return torch.log_softmax(self.fc(self.dropout(pooled)), dim=-1)


if __name__ == "__main__":
    model = LSTMClassifier(1000)
    x = torch.randint(1, 1000, (4, 12))
    print(model(x, torch.tensor([12, 5, 9, 3])).exp())
