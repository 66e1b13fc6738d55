"""Pure functions from arrays and named parameters to arrays: what Transformers and attention RNNs are made of.

One definition serves NumPy, torch and any other library of the array API standard.  Vectors are rows: x (…, T, D).
A weight (out, in) maps x to x weightᵀ, as in torch.  Parameters come as mappings from names to arrays, or to further
mappings and lists of them; ``nested`` makes these of flat names as they stand in a file ("encoder.0.norm.scale").
In place of the weight and bias of a linear map, such as query_weight and query_bias, may stand a function of x under
its name, query: so modules keep their own maps, and what is hooked to them.

Algorithm numbers are those of Phuong & Hutter 2022, Formal Algorithms for Transformers (arXiv:2207.09238).
"""

from overt.layers.activations import gelu, relu, sigmoid, softmax
from overt.layers.attentions import (
    Attention,
    Pair,
    additive_attention,
    additive_keys,
    attention_layer,
    bilinear_attention,
    keys_and_values,
    mix_additive,
    mix_heads,
    multi_head_attention,
    single_query_attention,
    watched,
)
from overt.layers.dense import embedding, feed_forward, keep, linear, positional_embedding, unembedding
from overt.layers.norms import layer_norm
from overt.layers.parameters import Parameters, nested
from overt.layers.recurrent import bidirectional_gru, gru, gru_cell
from overt.layers.transformers import (
    decoder_layer,
    decoder_transformer,
    encoder_decoder_transformer,
    encoder_layer,
    encoder_transformer,
    generate,
)

__all__ = [
    "Attention",
    "Pair",
    "Parameters",
    "additive_attention",
    "additive_keys",
    "attention_layer",
    "bidirectional_gru",
    "bilinear_attention",
    "decoder_layer",
    "decoder_transformer",
    "embedding",
    "encoder_decoder_transformer",
    "encoder_layer",
    "encoder_transformer",
    "feed_forward",
    "gelu",
    "generate",
    "gru",
    "gru_cell",
    "keep",
    "keys_and_values",
    "layer_norm",
    "linear",
    "mix_additive",
    "mix_heads",
    "multi_head_attention",
    "nested",
    "positional_embedding",
    "relu",
    "sigmoid",
    "single_query_attention",
    "softmax",
    "unembedding",
    "watched",
]
