"""One attention step of our Tacotron 2 decoder.

Location-sensitive attention: the energies see the decoder query, the encoder memory
and a convolution over the previous and the accumulated alignment.

    e_t = v^T tanh(W_q q + W_m m_t + W_f f_t)
"""
from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn


class AttnState(NamedTuple):
    hidden: Tensor        # attention LSTM
    cell: Tensor
    context: Tensor       # (B, enc_dim)
    weights: Tensor       # (B, T_in)
    cumulative: Tensor    # (B, T_in)


class LocationLayer(nn.Module):
    def __init__(self, filters: int, kernel: int, attn_dim: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, filters, kernel, padding=(kernel - 1) // 2, bias=False)
        self.dense = nn.Linear(filters, attn_dim, bias=False)

    def forward(self, history: Tensor) -> Tensor:
        return self.dense(self.conv(history).transpose(1, 2))


class TacotronAttentionStep(nn.Module):
    def __init__(self, prenet_dim: int = 10, enc_dim: int = 16, rnn_dim: int = 20,
                 attn_dim: int = 12, filters: int = 4, kernel: int = 7) -> None:
        super().__init__()
        self.rnn_dim = rnn_dim
        self.rnn = nn.LSTMCell(prenet_dim + enc_dim, rnn_dim)
        self.query_layer = nn.Linear(rnn_dim, attn_dim, bias=False)
        self.memory_layer = nn.Linear(enc_dim, attn_dim, bias=False)
        self.location_layer = LocationLayer(filters, kernel, attn_dim)
        self.v = nn.Linear(attn_dim, 1, bias=False)

    def initial_state(self, memory: Tensor) -> AttnState:
        B, T, E = memory.shape
        z = memory.new_zeros
        return AttnState(z(B, self.rnn_dim), z(B, self.rnn_dim), z(B, E), z(B, T), z(B, T))

    def process_memory(self, memory: Tensor) -> Tensor:
        """Constant for a sentence, so computed once by the caller."""
        return self.memory_layer(memory)

    def forward(
        self,
        prenet_out: Tensor,
        memory: Tensor,
        processed: Optional[Tensor] = None,
        state: Optional[AttnState] = None,
        lengths: Optional[Tensor] = None,
    ) -> Tuple[Tensor, AttnState]:
        if processed is None:
            processed = self.process_memory(memory)
        if state is None:
            state = self.initial_state(memory)

        h, c = self.rnn(torch.cat([prenet_out, state.context], dim=-1), (state.hidden, state.cell))
        history = torch.stack([state.weights, state.cumulative], dim=1)
        energies = self.v(torch.tanh(
            self.query_layer(h).unsqueeze(1) + processed + self.location_layer(history)
        )).squeeze(-1)
        if lengths is not None:
            pad = torch.arange(memory.size(1), device=memory.device) >= lengths.unsqueeze(1)
            energies = energies.masked_fill(pad, -float("inf"))
        weights = torch.softmax(energies, dim=1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        new = AttnState(h, c, context, weights, state.cumulative + weights)
        return torch.cat([h, context], dim=-1), new


if __name__ == "__main__":
    step = TacotronAttentionStep()
    mem = torch.randn(2, 9, 16)
    pm, st = step.process_memory(mem), None
    for _ in range(3):
        out, st = step(torch.randn(2, 10), mem, pm, st, torch.tensor([9, 6]))
    print(out.shape, st.cumulative.sum(1))
