"""What stands in for a module of ``torch.nn`` as it is: its arguments, its state dict, and its masks, here alone."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from overt import layers
from overt.attended import Attended
from overt.dropout import dropout
from overt.errors import ArgumentError, ShapeError
from overt.masks import Mask, causal
from overt.torch.attention import attention

_CAUSAL, _TOP_LEFT = causal(), causal(offset=0)


def swap(model: nn.Module) -> nn.Module:
    """Let every ``torch.nn.MultiheadAttention`` in a model compute as the one here; the model itself comes back.

    Parameters, their names, hooks and whoever else holds the modules stay as they are.
    """
    for part in model.modules():
        if type(part) is nn.MultiheadAttention:
            part.__class__ = MultiheadAttention
            part._qkv_same_embed_dim = False
    return model


class MultiheadAttention(nn.MultiheadAttention):
    """``torch.nn.MultiheadAttention`` on overt's kernels, in memory linear in length.

    Everything means what it means there: inputs (L, N, E), with ``batch_first`` (N, L, E), or (L, E) without a batch;
    masks of booleans say what is hidden, masks of floats are added to the scores, ``is_causal`` is a hint that
    ``attn_mask`` is causal from the first key on.  ``need_weights=True`` gives the whole matrix of weights, after
    dropout, and takes torch's own way to it.  With ``attended=True`` the second result is an ``Attended`` instead.
    A query that sees nothing gets zeros, which give the output bias, and NaN where weights are asked for.
    """

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        *,
        attended: bool = False,
    ) -> tuple[Tensor, Any]:
        if query.is_nested:
            return self._nested(query, key, value, need_weights, average_attn_weights)
        if need_weights and not attended:
            return self._weighed(query, key, value, key_padding_mask, attn_mask, average_attn_weights, is_causal)
        q, k, v = self._heads(query, key, value)
        mask, bias = self._masks(q, k, key_padding_mask, attn_mask, is_causal)
        found: list[Attended] = []
        chosen = layers.watched(found) if attended else attention
        if self.training and self.dropout:
            chosen = partial(chosen, dropout=dropout(self.dropout, torch.randint(2**62, (), device=q.device)))
        # (N, H, L, D), of which the caller knows other axes.
        y = chosen(q, k, v, mask=mask, bias=bias).transpose(1, 2).flatten(2)
        if query.ndim == 2:
            y = y.squeeze(0)
        elif not self.batch_first:
            y = y.transpose(0, 1)
        return self.out_proj(y), found[0] if attended else None

    def reset_parameters(self) -> None:
        """Draw every parameter afresh, as after ``to_empty``."""
        self.out_proj.reset_parameters()
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        self._qkv_same_embed_dim = self.in_proj_weight is not None
        super()._reset_parameters()
        # torch.nn.TransformerEncoderLayer goes around a module of which this is true, on to a kernel of its own.
        self._qkv_same_embed_dim = False

    def _heads(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """q (N, H, L, D), k and v (N, H, S, D), with the keys and values that the module adds."""
        self._check(query, key, value)
        packed: Tensor | None = self.in_proj_weight
        bias: Tensor | None = self.in_proj_bias
        if packed is not None and query is key is value:
            found = list(functional.linear(query, packed, bias).chunk(3, dim=-1))
        else:
            separate = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
            weights: tuple[Tensor, ...] = separate if packed is None else packed.chunk(3)
            biases = (None, None, None) if bias is None else bias.chunk(3)
            found = [functional.linear(*one) for one in zip((query, key, value), weights, biases, strict=True)]
        if query.ndim == 2:
            found = [x[None] for x in found]
        elif not self.batch_first:
            found = [x.transpose(0, 1) for x in found]
        N = len(found[0])
        if self.bias_k is not None and self.bias_v is not None:
            for i, added in ((1, self.bias_k), (2, self.bias_v)):
                found[i] = torch.cat([found[i], added.to(found[i].dtype).expand(N, 1, -1)], dim=1)
        if self.add_zero_attn:
            found[1:] = [functional.pad(x, (0, 0, 0, 1)) for x in found[1:]]
        return [x.reshape(N, x.shape[1], self.num_heads, self.head_dim).transpose(1, 2) for x in found]

    def _masks(
        self, q: Tensor, k: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None, is_causal: bool
    ) -> tuple[Mask | Tensor | None, Tensor | None]:
        """overt's mask and bias of torch's two masks."""
        N, H, T, S = *q.shape[:3], k.shape[2]
        if is_causal and attn_mask is None:
            raise ArgumentError("is_causal is a hint that attn_mask is causal: give that mask too")
        added = int(self.bias_k is not None) + int(self.add_zero_attn)
        given = []
        if key_padding_mask is not None:
            rows = key_padding_mask[None] if key_padding_mask.ndim == 1 else key_padding_mask
            if rows.shape != (N, S - added):
                raise ShapeError(
                    f"key_padding_mask has shape {tuple(key_padding_mask.shape)}, but there are {S - added} keys "
                    f"in each of {N} rows: give (N, S) = {(N, S - added)}, or (S,) without a batch"
                )
            given.append(rows[:, None, None, :])
        elif is_causal:
            return (_CAUSAL if T == S else _TOP_LEFT), None
        if attn_mask is not None:
            if attn_mask.shape not in ((T, S - added), (N * H, T, S - added)):
                raise ShapeError(
                    f"attn_mask has shape {tuple(attn_mask.shape)}: give (L, S) = {(T, S - added)} or "
                    f"(N · heads, L, S) = {(N * H, T, S - added)}"
                )
            given.append(attn_mask.view(-1, H, *attn_mask.shape[1:]) if attn_mask.ndim == 3 else attn_mask)
        keep: Tensor | None = None
        bias: Tensor | None = None
        for mask in given:
            # Keys that the module adds are seen by all.
            mask = functional.pad(mask, (0, added))
            seen = ~mask if mask.dtype == torch.bool else mask != -torch.inf
            keep = seen if keep is None else keep & seen
            if mask.dtype != torch.bool:
                finite = torch.where(seen, mask, 0.0)
                # Half types would round the sum.
                wide = torch.promote_types(q.dtype, torch.float32)
                bias = finite if bias is None else bias.to(wide) + finite.to(wide)
        # Layers of torch make floats of booleans, which leave nothing to be added.
        if (
            bias is not None
            and not torch.compiler.is_compiling()
            and not bias.requires_grad
            and bias.device.type == "cpu"
        ):
            bias = bias if bias.any() else None
        return keep, bias

    def _weighed(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
        average_attn_weights: bool,
        is_causal: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Output and all weights, as torch computes them."""
        second = query.ndim == 3 and self.batch_first
        if second:
            # What is one tensor stays one: torch projects it once.
            turned = {id(x): x.transpose(0, 1) for x in (query, key, value)}
            query, key, value = (turned[id(x)] for x in (query, key, value))
        y, weights = functional.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            attn_mask=attn_mask,
            use_separate_proj_weight=self.in_proj_weight is None,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (y.transpose(0, 1) if second else y), weights

    def _nested(
        self, query: Tensor, key: Tensor, value: Tensor, need_weights: bool, average_attn_weights: bool
    ) -> tuple[Tensor, Any]:
        """Self-attention of rows of several lengths, which ``torch.nn.TransformerEncoder`` makes of padded ones."""
        if not (query is key is value):
            raise ArgumentError("nested tensors may attend to themselves alone: give the same as query, key and value")
        padded = query.to_padded_tensor(0.0)
        lengths = torch.tensor([len(row) for row in query.unbind()], device=query.device)
        there = torch.arange(padded.shape[1], device=query.device) < lengths[:, None]
        y, weights = self(
            padded,
            padded,
            padded,
            key_padding_mask=~there,
            need_weights=need_weights,
            average_attn_weights=average_attn_weights,
        )
        return torch._nested_tensor_from_mask(y, there, mask_check=False), weights

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        axes = (1, 0) if self.batch_first else (0, 1)
        shapes = ", ".join(f"{name} {tuple(x.shape)}" for name, x in (("query", query), ("key", key), ("value", value)))
        if not (query.ndim == key.ndim == value.ndim and query.ndim in (2, 3)):
            raise ShapeError(f"query, key and value need two axes, or three with a batch, not {shapes}")
        widths = self.embed_dim, self.kdim, self.vdim
        if (query.shape[-1], key.shape[-1], value.shape[-1]) != widths:
            raise ShapeError(f"{shapes} have other widths (the last axis) than embed_dim, kdim and vdim, {widths}")
        if key.shape[:-1] != value.shape[:-1] or (query.ndim == 3 and query.shape[axes[1]] != key.shape[axes[1]]):
            raise ShapeError(f"{shapes} do not go together: give one value a key, and keys for each row of the batch")
