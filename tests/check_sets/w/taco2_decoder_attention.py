import torch
from torch import nn
from torch.nn import functional as F


def get_mask_from_lengths(lengths, max_len):
    ids = torch.arange(0, max_len, device=lengths.device)
    return ids < lengths.unsqueeze(1)


class LocationLayer(nn.Module):
    def __init__(self, attention_n_filters, attention_kernel_size, attention_dim):
        super(LocationLayer, self).__init__()
        padding = int((attention_kernel_size - 1) / 2)
        self.location_conv = nn.Conv1d(2, attention_n_filters, attention_kernel_size, padding=padding, bias=False)
        self.location_dense = nn.Linear(attention_n_filters, attention_dim, bias=False)

    def forward(self, attention_weights_cat):
        processed_attention = self.location_conv(attention_weights_cat)
        processed_attention = processed_attention.transpose(1, 2)
        return self.location_dense(processed_attention)


class Attention(nn.Module):
    def __init__(self, attention_rnn_dim, embedding_dim, attention_dim, n_filters, kernel_size):
        super(Attention, self).__init__()
        self.query_layer = nn.Linear(attention_rnn_dim, attention_dim, bias=False)
        self.memory_layer = nn.Linear(embedding_dim, attention_dim, bias=False)
        self.v = nn.Linear(attention_dim, 1, bias=False)
        self.location_layer = LocationLayer(n_filters, kernel_size, attention_dim)
        self.score_mask_value = -float("inf")

    def get_alignment_energies(self, query, processed_memory, attention_weights_cat):
        """
        query: decoder output (batch, attention_rnn_dim)
        processed_memory: processed encoder outputs (B, T_in, attention_dim)
        attention_weights_cat: cumulative and prev. att weights (B, 2, max_time)
        """
        processed_query = self.query_layer(query.unsqueeze(1))
        processed_attention_weights = self.location_layer(attention_weights_cat)
        energies = self.v(torch.tanh(processed_query + processed_attention_weights + processed_memory))
        return energies.squeeze(-1)

    def forward(self, attention_hidden_state, memory, processed_memory, attention_weights_cat, mask):
        alignment = self.get_alignment_energies(attention_hidden_state, processed_memory, attention_weights_cat)
        if mask is not None:
            alignment = alignment.masked_fill(mask, self.score_mask_value)
        attention_weights = F.softmax(alignment, dim=1)
        attention_context = torch.bmm(attention_weights.unsqueeze(1), memory)
        return attention_context.squeeze(1), attention_weights


class Decoder(nn.Module):
    def __init__(self, n_mel_channels=20, encoder_embedding_dim=32, attention_rnn_dim=48, attention_dim=24,
                 n_filters=8, kernel_size=5):
        super(Decoder, self).__init__()
        self.prenet = nn.Linear(n_mel_channels, 16)
        self.attention_rnn = nn.LSTMCell(16 + encoder_embedding_dim, attention_rnn_dim)
        self.attention_layer = Attention(attention_rnn_dim, encoder_embedding_dim, attention_dim, n_filters, kernel_size)
        self.proj = nn.Linear(attention_rnn_dim + encoder_embedding_dim, n_mel_channels)

    def forward(self, memory, decoder_inputs, memory_lengths):
        """ Decoder forward pass for training
        memory: Encoder outputs (B, T_in, encoder_embedding_dim)
        decoder_inputs: mel-specs for teacher forcing (B, T_out, n_mel_channels)
        memory_lengths: Encoder output lengths (B,)
        """
        B, T_in, _ = memory.shape
        mask = ~get_mask_from_lengths(memory_lengths, T_in)
        processed_memory = self.attention_layer.memory_layer(memory)
        h = memory.new_zeros(B, self.attention_rnn.hidden_size)
        c = torch.zeros_like(h)
        weights = memory.new_zeros(B, T_in)
        weights_cum = memory.new_zeros(B, T_in)
        context = memory.new_zeros(B, memory.size(2))
        go = decoder_inputs.new_zeros(B, 1, decoder_inputs.size(2))
        frames = F.relu(self.prenet(torch.cat((go, decoder_inputs[:, :-1]), dim=1)))

        mels, alignments = [], []
        for t in range(frames.size(1)):
            h, c = self.attention_rnn(torch.cat((frames[:, t], context), -1), (h, c))
            cat = torch.cat((weights.unsqueeze(1), weights_cum.unsqueeze(1)), dim=1)
            context, weights = self.attention_layer(h, memory, processed_memory, cat, mask)
            weights_cum = weights_cum + weights
            mels.append(self.proj(torch.cat((h, context), dim=1)))
            alignments.append(weights)
        return torch.stack(mels, 1), torch.stack(alignments, 1)
