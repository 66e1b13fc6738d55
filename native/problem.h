// The one thing that crosses from Python to a kernel.  Data only: an inline function here would be compiled once per
// level under one name, and the linker could hand the AVX-512 copy to a machine without AVX-512.
#pragma once
#include <cstddef>
#include <cstdint>

namespace overt {

using Index = std::ptrdiff_t;

enum class Type : std::uint8_t { float16, bfloat16, float32, float64 };

// An array (batch, head, row, last).  Strides count elements; the last axis has stride 1.
struct View {
  const void* data = nullptr;
  Index batch = 0, head = 0, row = 0;
};

// B batch, H query heads, G key heads, T queries, S keys, D width of q and k, E width of v.
struct Problem {
  Type type;
  Index B, H, G, T, S, D, E;
  View q, k, v;      // of `type`
  View first, last;  // int32 (B, H, T, 1): query t sees keys first ≤ s < last; null: 0 and S
  View bits;         // bool (B, H, T, S) or null: and of those only the keys whose bit is set
  View bias;         // (B, H, T, S) or null, of the accumulator's type
  bool even_bias;    // the bias is (B, H, T, 1): the same for all keys of a row
  const void* sinks; // (H,) or null, of the accumulator's type
  double scale, softcap;
  // (D,) or null, of the accumulator's type: score = scale · Σ vector tanh(q + k), and not scale · q kᵀ.
  const void* additive;
  bool bounded;  // no |q| or |k| exceeds 10, so that e^2q e^2k is far from overflow
  bool steep;    // the vector is so large that what rounding makes of a term would show; then nothing is bounded
  // Each weight is dropped with this probability.
  double dropout;
  std::uint64_t seed;
  Index first_batch, first_head, first_query, first_key;  // what the generator calls the first of each
  // Rows of a key head and keys of the whole that this is a part of.  They choose the level: what one call has found
  // about some rows, another must find for any of them.
  Index whole_rows, whole_keys;
};

// Beyond this scale what is lost of products near the smallest number would show in the scores.
constexpr double kWildScale = 0x1p24;

// log Σ exp(scores) of each row, the sum of two numbers: `value`, and what that leaves out by being one number of its type.
// Each is (B, H, T) of the accumulator's type.  Without the rest, which may be null, weights of scores about 10⁴ would be
// off by 10⁻³.
struct LogSum {
  void *value, *rest;
};

// How to run, as opposed to what.
struct Run {
  int threads;
  bool poison;  // fill scratch memory with NaN first, to show that nothing is read before it is written
  bool panels = false;  // compute scores as the way back does, from packed keys, however few queries there are
};

// (row_bins, 2) and (column_bins, 2) intervals [start, end), and how to join the weights of a rectangle.
struct Bins {
  const std::int64_t* rows;
  Index row_count;
  const std::int64_t* columns;
  Index column_count;
  bool mean;
};

// Statistics that come along with the output where that is cheaper than a pass of their own: received (B, H, S) and entropy
// (B, H, T) of the accumulator's type.  Unless `found`, what they hold means nothing.
struct Along {
  void *received, *entropy;
  bool found;
};

// What a pass over all weights picks out of them.  Of single keys: `key`, int32 (keys, B, T, 1), negative where a query
// picks none, the weights into `found` (keys, B, H, T); NaN where there is none or the query sees nothing.  Of whole rows,
// those of the queries `row` (rows,): how far these weights times the values are from `output` (B, H, T, E), which somebody
// else made of them, and the largest of these products, into `off` (B, H, rows, 2); 0 where the query sees nothing.
// Output is of the problem's type, found and off of the accumulator's.
struct Picks {
  Index keys;
  View key;
  void* found;
  Index rows;
  const std::int64_t* row;
  View output;
  void* off;
};

// What the way back reads beside the problem: `output` and `dy` of the problem's type, (B, H, T, E), the log-sums, and
// unless null the gradient dlse (B, H, T) of these, of the accumulator's type.
// What it writes unless null, all of the accumulator's type: dq (B, H, T, D), dk (B, G, S, D), dv (B, G, S, E), the
// gradient dbias (B, H, T, S) of the biased scores, dsinks (H,) and dadditive (D,), which is never null in the additive
// score.  What is null costs nothing.
struct Pull {
  View output, dy;
  LogSum lse;
  const void* dlse;
  void *dq, *dk, *dv, *dbias, *dsinks, *dadditive;
};

// The entry points of one level.  All return false when memory runs out, and may leave their outputs half written then.
// `Acc` arrays are double for float64 and float for the rest; all outputs are C-contiguous.
struct Kernels {
  bool (*forward)(const Problem&, const Run&, void* output, const LogSum*, Along*);  // null: neither is wanted
  bool (*backward)(const Problem&, const Run&, const Pull&);
  bool (*statistics)(const Problem&, const Run&, const LogSum&, void* received, void* entropy, const Picks*);  // null: none
  bool (*top)(const Problem&, const Run&, const LogSum&, Index count, std::int64_t* indices, void* weights);
  bool (*map)(const Problem&, const Run&, const LogSum&, const Bins&, void* out);
  bool (*weights)(const Problem&, const Run&, const LogSum&, void* out);
};

}  // namespace overt
