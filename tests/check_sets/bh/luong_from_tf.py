"""Load the old TensorFlow-1 date-normaliser checkpoint into PyTorch.

The TF graph used LuongAttention(general) with AttentionWrapper:
    score(h_t, s) = h_t^T W s            (no scaling; `scale=False` in TF)
    a = softmax(score) over source steps, masked by source length
    attentional vector = tanh( W_c [context ; h_t] )
TF Dense kernels are stored (in, out), torch Linear weights are (out, in), so
every kernel is transposed on load.
"""
import numpy as np
import torch
import torch.nn as nn

TF_NAMES = {
    "memory_layer/kernel": "memory.weight",
    "attention_layer/kernel": "mix.weight",
}


def sequence_mask(lengths, max_len):
    """(B,) -> (B, max_len) bool, True inside the sentence (tf.sequence_mask)."""
    return torch.arange(max_len)[None, :] < lengths[:, None]


class LuongGeneral(nn.Module):
    def __init__(self, units, enc_units):
        super().__init__()
        self.memory = nn.Linear(enc_units, units, bias=False)
        self.mix = nn.Linear(enc_units + units, units, bias=False)
        self._keys = self._values = self._mask = None

    def setup_memory(self, enc_out, lengths):
        """Call once per batch; keys are projected only here, as in TF."""
        self._mask = sequence_mask(lengths, enc_out.shape[1])
        self._values = enc_out * self._mask[..., None].to(enc_out.dtype)
        self._keys = self.memory(self._values)

    def forward(self, h):
        """h: (B, units) decoder state -> attentional vector (B, units), alignments (B, S)."""
        score = torch.einsum("bu,bsu->bs", h, self._keys)
        score = score.masked_fill(~self._mask, float("-inf"))
        align = torch.softmax(score, dim=-1)
        context = torch.einsum("bs,bse->be", align, self._values)
        return torch.tanh(self.mix(torch.cat([context, h], dim=-1))), align


class DateDecoder(nn.Module):
    def __init__(self, vocab, emb=16, units=32, enc_units=40):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.cell = nn.GRUCell(emb + units, units)   # input feeding
        self.att = LuongGeneral(units, enc_units)
        self.out = nn.Linear(units, vocab)
        self.units = units

    def forward(self, enc_out, lengths, targets):
        self.att.setup_memory(enc_out, lengths)
        b = enc_out.shape[0]
        h = enc_out.new_zeros(b, self.units)
        a = enc_out.new_zeros(b, self.units)
        logits = []
        for t in range(targets.shape[1]):
            h = self.cell(torch.cat([self.emb(targets[:, t]), a], -1), h)
            a, _ = self.att(h)
            logits.append(self.out(a))
        return torch.stack(logits, 1)


def load_tf_arrays(att: LuongGeneral, arrays: dict[str, np.ndarray]) -> None:
    """arrays: name -> ndarray, e.g. dict(np.load('date_ckpt.npz'))."""
    state = att.state_dict()
    for tf_name, name in TF_NAMES.items():
        kernel = np.ascontiguousarray(arrays[tf_name].T.astype(np.float32))
        assert tuple(state[name].shape) == kernel.shape, (name, kernel.shape)
        state[name] = torch.from_numpy(kernel)
    att.load_state_dict(state)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    dec = DateDecoder(30)
    load_tf_arrays(dec.att, {"memory_layer/kernel": rng.normal(size=(40, 32)),
                             "attention_layer/kernel": rng.normal(size=(72, 32))})
    print(dec(torch.randn(3, 9, 40), torch.tensor([9, 4, 6]), torch.randint(0, 30, (3, 5))).shape)
