"""The mistakes that the checker knows: what they are in a sentence, how to mend them, and where they were seen."""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """kind: mistake, convention or risk where it is found; rank: the lower, the commoner; look: what the line contains."""

    says: str
    mend: str = ""
    evidence: str = ""
    rank: int = 3
    kind: str = "mistake"
    look: str = ""


_SOFTMAX = r"softmax|exp\("
_SCALE = r"sqrt|\*\*\s*-?\(?0?\.5|\*\*\s*\(?-|scal|rsqrt|math\.pow|/ *\w*d(im|_k|k)?\b"
_MASK = r"masked_fill|where\(|mask"
_CAUSAL = r"tril|triu|causal|arange"
_SPLIT = r"view\(|reshape\(|rearrange\(|unflatten\("
_SCORES = r"@|matmul|einsum|bmm|dot\("
_G = "https://github.com/"

MISTAKES: dict[str, Mistake] = {
    "softmax_axis_q": Mistake(
        "The softmax runs over the queries: the weights of a column sum to 1, those of a row do not.",
        "Normalise over the last axis of the scores, the keys: softmax(scores, axis=-1).",
        _G + "PetrochukM/PyTorch-NLP/issues/2", 0, look=_SOFTMAX),
    "softmax_axis_head_or_batch": Mistake(
        "The softmax runs over the heads or the batch, so heads or samples compete with each other.",
        "Name the axis of the keys: softmax(scores, axis=-1).",
        _G + "jadore801120/attention-is-all-you-need-pytorch/issues/52", 3, look=_SOFTMAX),
    "softmax_heads_and_keys": Mistake(
        "One softmax runs over all keys of all heads, so the weights of one head sum to less than 1.",
        "Normalise each head by itself, over the last axis.", _G + "facebookresearch/detr/issues/247", 5, look=_SOFTMAX),
    "softmax_global": Mistake(
        "The exponentials are divided by the sum of the whole score matrix, so all queries share one total of 1.",
        "Sum over the keys alone and keep the axis: e / e.sum(axis=-1, keepdims=True).",
        "https://numpy.org/doc/stable/reference/generated/numpy.sum.html", 3, look=r"sum\(|" + _SOFTMAX),
    "softmax_partial_max": Mistake(
        "The maximum is subtracted in one half of the fraction only, so the weights do not sum to 1.",
        "Compute e = exp(scores - max) once, and divide it by its own sum.",
        "https://en.wikipedia.org/wiki/Softmax_function#Numerical_algorithms", 5, look=r"exp\("),
    "no_max": Mistake(
        "The exponential is taken without subtracting the maximum first: large scores overflow to NaN.",
        "Subtract each row's maximum before exp; the result is the same and never overflows.",
        _G + "pyg-team/pytorch_geometric/issues/53", 1, look=r"exp\("),
    "global_max": Mistake(
        "The maximum of the whole matrix is subtracted, so a row far below it loses all its exponentials: 0/0.",
        "Subtract the maximum of each row: max(axis=-1, keepdims=True).",
        "https://en.wikipedia.org/wiki/Softmax_function#Numerical_algorithms", 3, look=r"max\("),
    "no_exp_norm": Mistake(
        "The scores are divided by their sum without an exponential, which is no softmax: negative scores give negative weights.",
        "Take exp(scores - max) before dividing by the sum.", "https://arxiv.org/abs/2207.09238", 5, look=r"sum\("),
    "softmax_missing": Mistake(
        "There is no softmax: the raw scores multiply the values.",
        "Apply softmax over the keys to the scores before they meet the values.", "https://arxiv.org/abs/1706.03762", 5,
        look=_SCORES),
    "scale_missing": Mistake(
        "The scores are not divided by the square root of the head width, so the softmax saturates as the width grows.",
        "Divide the scores by sqrt(d), d the width of one query.", _G + "huggingface/blog/pull/2893", 1, look=_SCORES),
    "scale_d": Mistake(
        "The scores are divided by the width, not by its square root (or by the square root twice).",
        "Divide by sqrt(d) once.", _G + "delzac/cntkx/issues/10", 3, look=_SCALE),
    "scale_dmodel": Mistake(
        "The scores are divided by the square root of the width of all heads together, not of one head.",
        "Divide by sqrt(d_head), where d_head = d_model / heads.", _G + "omihub777/ViT-CIFAR/pull/11", 0, look=_SCALE),
    "scale_inverted": Mistake(
        "The scores are multiplied by the square root of the width where they should be divided by it.",
        "Multiply by d ** -0.5, or divide by d ** 0.5.", _G + "esceptico/perceiver-io/issues/9", 4, look=_SCALE),
    "scale_seqlen": Mistake(
        "The scores are divided by the square root of the sequence length, not of the width.",
        "Take d from the last axis of the query.", _G + "maxjcohen/transformer", 4, look=_SCALE),
    "scale_num_heads": Mistake(
        "The scores are divided by the square root of the number of heads, not of the head width.",
        "Take d from the last axis of the split query.", _G + "tenstorrent/tt-metal/pull/56789", 4, look=_SCALE),
    "mask_inverted": Mistake(
        "The mask is read the wrong way round: what should be kept is hidden, and what should be hidden is kept.",
        "Exchange the two branches, or turn the mask round with ~mask.",
        _G + "huggingface/transformers/pull/38094", 0, look=_MASK),
    "mask_bool_as_float": Mistake(
        "The mask of booleans is added to the scores as 0 and 1, which hides nothing.",
        "Fill the hidden cells with -inf: where(mask, scores, -inf).", _G + "pytorch/pytorch/issues/103963", 1, look=r"\+.*mask|mask"),
    "mask_float_as_bool": Mistake(
        "The additive mask is read as booleans: its zeros, which mean visible, hide, and its -inf keep.",
        "Add the mask to the scores: scores + mask.", _G + "huggingface/transformers/pull/38094", 3, look=_MASK),
    "mask_after_softmax": Mistake(
        "The mask multiplies the weights after the softmax, so hidden keys still count in the sum and rows sum to less than 1.",
        "Mask the scores with -inf before the softmax, or divide by the row sum again.",
        _G + "huggingface/pytorch-image-models/pull/2236", 3, look=r"\*.*mask|mask"),
    "mask_times_scores": Mistake(
        "Hidden scores become 0 (or 1e-9) and not -inf; exp(0) is 1, so hidden keys keep a weight.",
        "Fill hidden scores with -inf.", "https://arxiv.org/abs/1706.03762", 3, look=_MASK),
    "mask_fill_too_small": Mistake(
        "Hidden scores get a number that is not negative enough: where scores are large, hidden keys show through.",
        "Fill with -inf, or with the most negative number of the dtype.", _G + "hyunwoongko/transformer", 3, look=_MASK),
    "mask_fp16_overflow": Mistake(
        "The number that fills hidden scores does not fit into half precision: it fails there, or becomes infinite.",
        "Fill with -inf, or with the dtype's own minimum (finfo(dtype).min).", _G + "NVIDIA/apex/issues/1052", 0, "risk",
        r"1e\d|1e-|masked_fill|mask"),
    "mask_finfo_sum": Mistake(
        "Two masks of the dtype's minimum are added; their sum is -inf, and a row where all are hidden becomes NaN.",
        "Combine the masks as booleans first, and fill once.", _G + "huggingface/transformers/pull/27114", 1, look=r"finfo|mask"),
    "mask_sign_inf": Mistake(
        "Hidden scores become +inf, or very large, so the softmax is NaN, or sees these alone.", "Fill with -inf.",
        _G + "lucidrains/memory-compressed-attention/issues/2", 5, look=r"inf"),
    "full_row_nan": Mistake(
        "A query that may see no key gets NaN.",
        "Replace the weights of rows without a visible key by 0, or know that the caller must.",
        _G + "pytorch/pytorch/issues/103749", 0, "convention", _MASK),
    "nan_in_masked_value": Mistake(
        "NaN or infinity in a hidden key or value reaches the output, because 0 times NaN is NaN.",
        "Zero hidden values first, or make sure that padding holds finite numbers.",
        _G + "pytorch/pytorch/issues/101967", 3, "risk", _SCORES),
    "pad_on_query": Mistake(
        "The padding mask lies on the axis of the queries: it hides whole rows instead of the padded keys.",
        "Give it the shape (B, 1, 1, S), so that it varies along the last axis of the scores.",
        _G + "hyunwoongko/transformer/pull/40", 3, look=r"unsqueeze|None|mask"),
    "mask_fold_order": Mistake(
        "Heads are folded into the batch in one order and the mask in the other, so samples get each other's masks.",
        "Repeat the mask in the order of the fold: repeat_interleave for (B, H), repeat or tile for (H, B).",
        _G + "sooftware/attentions/issues/4", 3, look=r"repeat|tile|mask"),
    "causal_off_by_one": Mistake(
        "The diagonal of the causal mask is off by one: a query sees the next token, or does not see its own.",
        "Keep the diagonal: tril(ones(T, T)), or hide triu(ones(T, T), 1).",
        _G + "hkproj/pytorch-transformer/issues/19", 1, look=_CAUSAL),
    "causal_missing": Mistake(
        "It promises causal attention, but every query sees the keys that come after it.",
        "Apply a lower triangular mask to the scores before the softmax.", _G + "huggingface/transformers/issues/48745", 3,
        look=_CAUSAL + "|" + _SOFTMAX),
    "causal_top_left": Mistake(
        "With more keys than queries the causal mask starts at the first key, so with a cache the newest query does not see its own past.",
        "Shift the diagonal by S - T: tril(ones(T, S), S - T).", _G + "pytorch/pytorch/issues/103082", 0, "convention", _CAUSAL),
    "window_off_by_one": Mistake(
        "The window counts the query itself, or counts one key too many: W keys besides the query are meant by some, W with it by others.",
        "Say which one is meant, and compare with FlashAttention (besides) or Hugging Face (with it).",
        _G + "NVIDIA-NeMo/Megatron-Bridge/pull/2656", 0, look=r"window|triu|tril|<|>"),
    "k_transposed_wrong": Mistake(
        "The keys are transposed over the wrong axes: .T turns all axes round, and (1, 2) are not the last two of four.",
        "Swap the last two axes: k.swapaxes(-1, -2) or k.transpose(-2, -1).",
        "https://numpy.org/doc/stable/reference/generated/numpy.ndarray.T.html", 2, look=r"\.T\b|transpose|permute|" + _SCORES),
    "split_view": Mistake(
        "The heads are split by a reshape alone, which mixes positions with heads.",
        "Reshape to (B, T, H, d) and then swap the axes 1 and 2.", _G + "reczoo/FuxiCTR/issues/30", 0, look=_SPLIT),
    "merge_view": Mistake(
        "The heads are merged by a reshape alone, which mixes heads with positions.",
        "Swap the axes 1 and 2 of (B, H, T, d) before the reshape to (B, T, H d).",
        _G + "jsbaan/transformer-from-scratch/pull/6", 0, look=_SPLIT),
    "fold_batch_head_swap": Mistake(
        "Heads are folded into the batch in one order and unfolded in the other, so samples exchange their heads.",
        "Unfold in the order of the fold.", _G + "gazelle93/Transformer-Various-Positional-Encoding/issues/1", 3, look=_SPLIT + "|cat|split|chunk"),
    "gqa_tile": Mistake(
        "Query head h reads key head h mod G; nearly all models mean h // (H / G).",
        "Repeat each key head in place: repeat_interleave or np.repeat, not tile.", _G + "onnx/onnx/pull/7274", 1, "convention",
        r"tile|repeat|expand|cat|%"),
    "gqa_repeat_wrong_axis": Mistake(
        "The key heads are repeated along another axis than that of the heads, so positions are mixed.",
        "Repeat along the axis of the heads.", _G + "PrimeIntellect-ai/prime-rl/pull/2681", 3, look=r"repeat|tile|expand"),
    "qkv_order": Mistake(
        "The packed projection is read in another order than query, key, value, each (H, d).",
        "Split the last axis as (3, H, d), in the order q, k, v, or reorder the checkpoint.", _G + "lablup/mlxcel/pull/928", 1,
        look=r"chunk|split|reshape|view|unbind"),
    "shared_projection": Mistake(
        "One projection is used where each of query, key, value, or each head, should have its own.",
        "Use the weight and bias that belong to each.", _G + "MarcoMeter/episodic-transformer-memory-ppo/pull/22", 4,
        look=r"q|W|proj|linear"),
    "rope_layout": Mistake(
        "The rotation pairs features one way and the frequencies another: halves with interleaved angles, or the reverse.",
        "Use concatenated frequencies with halves, repeated ones with neighbouring pairs.",
        _G + "karpathy/nanochat/issues/264", 0, look=r"cat|stack|repeat|rotate"),
    "rope_offset": Mistake(
        "Cached keys were rotated at their positions, but the new query is rotated from position 0, so distances are wrong.",
        "Start the positions of new tokens at the length of the cache.", _G + "fla-org/flash-linear-attention/issues/766", 0,
        look=r"arange|pos|offset|rope|rot"),
    "alibi_sign": Mistake(
        "The bias of ALiBi has the wrong sign: it rewards distance.", "Subtract slope times distance.",
        _G + "meta-pytorch/attention-gym/pull/86", 3, look=r"slope|arange|alibi"),
    "alibi_slopes": Mistake(
        "The slopes of ALiBi are not those of the paper: they start at 1, or use the plain formula where H is no power of two.",
        "Slopes are 2^(-8/n), 2^(-16/n), …; other head counts interleave two such series.", _G + "ml-explore/mlx/pull/3071", 1,
        look=r"\*\*.*range|slope|\*\*(?! *-?0?\.5)|pow"),
    "alibi_offset": Mistake(
        "The distance is not shifted by S - T where there are more keys than queries; only |distance| without a causal mask shows it.",
        "Count the position of query t as t + S - T.", _G + "lucidrains/x-transformers/issues/153", 4, "risk", r"arange|alibi"),
    "softcap_after_mask": Mistake(
        "The softcap comes after the mask, so -inf becomes -cap and hidden keys show through.",
        "Cap the scores first, then mask.", _G + "onnx/onnx/issues/7865", 3, look=r"tanh|cap"),
    "softcap_missing": Mistake(
        "The softcap is accepted and not applied.", "scores = cap * tanh(scores / cap), before the mask.",
        _G + "sgl-project/sgl-kernel-xpu/pull/491", 3, look=r"cap"),
    "lse_base2": Mistake(
        "The log-sum-exp is in base 2 where the natural one is meant (or merged with the wrong base).",
        "Multiply by ln 2, or merge with exp2.", _G + "flashinfer-ai/flashinfer/issues/2113", 1, look=r"log2|exp2|\*\*|log"),
    "dropout_eval": Mistake(
        "Dropout is active outside training: two calls with the same input differ.",
        "Pass dropout_p only if self.training, and build nn.Dropout in __init__.", _G + "pytorch/pytorch/issues/124464", 0,
        look=r"[dD]ropout|random|bernoulli"),
    "dropout_stuck_off": Mistake(
        "After one eval() dropout stays off in training for good.", "Leave p alone and read self.training.",
        _G + "NVIDIA/Megatron-LM/pull/411", 5, look=r"\.p\s*=(?!=)|[dD]ropout|\.p\b|eval"),
    "weights_after_dropout": Mistake(
        "The returned weights are those after dropout: in training their rows do not sum to 1.",
        "Return the weights from before dropout.", _G + "pytorch/pytorch/issues/27968", 1, "risk", r"[dD]ropout"),
    "softmax_low_precision": Mistake(
        "The softmax runs in half precision, which costs three digits.",
        "Compute scores and softmax in float32, and round the output.", _G + "huggingface/transformers/pull/17437", 1,
        look=r"half|float16|bfloat16|softmax|exp\("),
    "inplace": Mistake(
        "It changes an array that it was given, so a second call sees other inputs.",
        "Work on a copy: masked_fill for masked_fill_, x = x + y for x += y.", _G + "Shujun-He/RibonanzaNet/issues/7", 3,
        look=r"[a-z0-9]_\(|\+=|-=|\*=|/=|\]\s*="),
    "not_inplace": Mistake(
        "The mask has no effect: masked_fill returns a new array, and its result is thrown away (or the mask is never used).",
        "Assign it: scores = scores.masked_fill(...).", _G + "lucidrains/flamingo-pytorch/issues/10", 3, look=r"masked_fill|where|mask"),
    "python_list": Mistake(
        "Layers are kept in a plain list or dict: their parameters are not registered, so nothing trains, moves or saves them.",
        "Use nn.ModuleList, nn.ModuleDict or nn.ParameterList.", _G + "pytorch/pytorch/issues/72580", 1, look=r"\[|list|dict|append"),
    "batch_first": Mistake(
        "The layer takes axis 0 for the sequence, so with batches first it attends over the batch: a sample sees others.",
        "Build nn.MultiheadAttention with batch_first=True.", _G + "om-ai-lab/OmDet/issues/19", 0, look=r"MultiheadAttention|transpose|permute"),
    "additive_no_tanh": Mistake(
        "The additive score has no tanh, so the query cancels in the softmax and all queries look alike.",
        "v · tanh(W q + U k).", _G + "spro/practical-pytorch", 3, look=r"\+|cat|Linear|@"),
    "additive_ignores_keys": Mistake(
        "The weights depend on the decoder state alone: the keys do not enter the scores.",
        "Score each key: v · tanh(W q + U k).", _G + "spro/practical-pytorch/issues/84", 3, look=r"softmax|Linear|@"),
    "additive_no_pairwise": Mistake(
        "W q and U k are added position by position, not every query with every key.",
        "Give them the shapes (T, 1, A) and (1, S, A) before adding.", _G + "sooftware/attentions", 3, look=r"tanh|\+"),
    "luong_no_tanh_out": Mistake(
        "The attentional vector has no tanh.", "tanh(W [c; h]).", _G + "tensorflow/nmt/issues/257", 4, look=r"cat|concat|@"),
    "returns_scores": Mistake(
        "What is returned as attention weights are the scores before the softmax.", "Return the weights.",
        _G + "xieenze/Trans2Seg", 4, look=r"return\b.*,|return"),
    "cross_wrong_length": Mistake(
        "It fails where queries and keys differ in number: a reshape or a mask uses one length for both.",
        "Take T from the query and S from the key.", _G + "ajhalthor/Transformer-Neural-Network", 3, look=_SPLIT + "|" + _CAUSAL),
    "cache_key": Mistake(
        "Weights are remembered by the keys alone: another query gets the weights of the first.",
        "Remember nothing, or by queries and keys both.", "https://docs.python.org/3/library/functools.html#functools.lru_cache", 5,
        look=r"cache|memo|self\.\w+\.get\(|if .* in "),
    "pe_exponent": Mistake(
        "The exponents of the sinusoidal encoding are not 2i/width for the pair i: an index counts twice, or sine and cosine differ.",
        "Columns 2i and 2i+1 are the sine and cosine of pos / 10000^(2i/width).", _G + "SamLynnEvans/Transformer/issues/25", 0,
        look=r"10_?000|1e4|exp\(|pow\("),
    "embed_scale": Mistake(
        "The embeddings are not multiplied by sqrt(d_model), or are divided by it.", "embedding(x) * sqrt(d_model).",
        _G + "pytorch/tutorials/issues/2849", 3, "risk", r"sqrt|embed"),
    "kv_len_mismatch": Mistake(
        "Keys and values of different number are accepted, and some keys are silently left out.",
        "Compare the lengths of k and v, and raise.", "https://pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
        3, "risk", r"def "),
}  # fmt: skip

# What is found of a candidate beside the mistakes.
SYMPTOMS: dict[str, Mistake] = {
    "raises": Mistake(
        "It raises on a call that should work: the one that was given, or one that nothing in the call explains.",
        kind="unknown", look="(?!)"),
    "hangs": Mistake("A call does not come back within --timeout.", kind="unknown"),
    "crashes": Mistake(
        "A call ends the process with a signal, or writes into the pipe of the checker.", kind="unknown"),
    "exits": Mistake("A call ends the program.", "Raise an exception, or return.", kind="unknown", look="(?!)"),
    "memory": Mistake(
        "A call asks for more memory than it was given.", "Raise the limit with --memory, or allocate less.",
        kind="unknown", look="(?!)"),
    "memory_quadratic": Mistake(
        "It holds T × S numbers at once: 256 MiB for each head and each such array at 8192 tokens in float32.",
        "For long sequences only: overt.attention and scaled_dot_product_attention need memory linear in length.",
        kind="risk", look=r"softmax|exp\(|@|matmul|einsum|bmm"),
    "prints": Mistake(
        "It prints while it computes.", "Leave out print, or use logging.", kind="risk", look=r"print|stdout"),
    "state": Mistake(
        "A call changes what the next one returns: the same inputs give another output.",
        "Keep nothing between calls, or reset it."),
    "global_read": Mistake("It reads a global of the same meaning instead of its argument."),
    "dtype_changed": Mistake(
        "Another dtype comes out than went in.",
        "In NumPy, divide by a Python float (math.sqrt), not by np.sqrt, whose result is a float64.",
        kind="risk", look=r"sqrt|astype|dtype|float"),
    "gradient_cut": Mistake(
        "No gradient reaches an input.", "Leave out detach(), .data, .numpy() and no_grad() on the way.",
        look=r"detach|\.data|numpy\(|no_grad|inference_mode"),
    "gradient_wrong": Mistake(
        "A gradient is not the slope of the output.", "Compare with torch.autograd.gradcheck.",
        look=r"backward|grad|detach"),
    "decode_differs": Mistake(
        "A later piece, with what the earlier ones left, does not give what all tokens at once give.",
        "Check positions, mask and order of the keys that are kept.", kind="unknown"),
    "removed_name": Mistake("np.infty no longer exists in NumPy 2.", "Write np.inf.", look=r"infty"),
    "unknown": Mistake("It is wrong, and no known mistake gives its numbers.", kind="unknown", look="(?!)"),
}  # fmt: skip
