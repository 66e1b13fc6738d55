import torch
from torch import nn


class CaptionAttention(nn.Module):
    """Soft attention of "Show, Attend and Tell": additive score between decoder state and image features."""

    def __init__(self, encoder_dim, decoder_dim, attention_dim):
        super().__init__()
        self.encoder_att = nn.Linear(encoder_dim, attention_dim)
        self.decoder_att = nn.Linear(decoder_dim, attention_dim)
        self.full_att = nn.Linear(attention_dim, 1)

    def forward(self, encoder_out, decoder_hidden):
        att1 = self.encoder_att(encoder_out)
        att2 = self.decoder_att(decoder_hidden)
        att = self.full_att(torch.tanh(att2.unsqueeze(1).expand_as(att1))).squeeze(2)
        alpha = torch.softmax(att, dim=1)
        awe = (encoder_out * alpha.unsqueeze(2)).sum(dim=1)
        return awe, alpha
