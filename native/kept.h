// Statistics along with the output: the weights of a task's rows are kept until the sums that divide them are known, and
// then added up, so that no score is computed twice.
#pragma once
#include "parts.h"

namespace overt::OVERT_LEVEL {

// A thread keeps so much.  Rows that share keys make up for reading them again; with fewer it is cheaper to compute the
// weights anew.
constexpr Index kKeptBytes = 4 << 20, kFewestKept = 96;

template <class Acc> struct Kept {
  static constexpr int lanes = kLanes<Acc>;
  Acc* tiles = nullptr;     // [groups][blocks of keys][kRows][kTileStride]
  Acc* bases = nullptr;     // [groups][blocks of keys][kQueries] the maxima that these are relative to
  Acc* spread = nullptr;    // [groups][kRows][lanes] Σ w ln w, where w is relative to the running maximum
  Acc* received = nullptr;  // [kBlock] of the rows of this task
  Index blocks = 0;

  static constexpr Index tile_size = kRows * kTileStride;

  // Groups that a task may have; 0 where keeping does not pay.
  static int groups(const Problem& p) {
    Index most = kKeptBytes / (larger<Index>(1, ceil_div(p.S, kBlock)) * tile_size * Index(sizeof(Acc)));
    return most * kRows < kFewestKept ? 0 : int(smaller<Index>(most, kMostGroups));
  }

  void place(Arena& arena, const Plan<Acc>& plan) {
    blocks = ceil_div(plan.p.S, kBlock);
    arena.take(tiles, plan.groups * blocks * tile_size);
    arena.take(bases, plan.groups * blocks * kQueries<Acc>);
    arena.take(spread, plan.groups * kRows * lanes);
    arena.take(received, kBlock);
  }

  Acc* tile(int i, Range block) const { return tiles + (i * blocks + block.begin / kBlock) * tile_size; }
  Acc* base(int i, Range block) const { return bases + (i * blocks + block.begin / kBlock) * kQueries<Acc>; }

  // What the keys of one block receive from a group: factors turn its weights into those of the whole row.
  template <int M> OVERT_INLINE void add(const Acc* tile, int width, const Acc* factors, Acc* to) const {
    for (int s = 0; s < width; s += 2 * lanes) {
      Lane<Acc> left = load(to + s), right = load(to + s + lanes);
#pragma GCC unroll 12
      for (int r = 0; r < M; ++r) {
        left += load(tile + r * kTileStride + s) * factors[r];
        right += load(tile + r * kTileStride + s + lanes) * factors[r];
      }
      store(to + s, left);
      store(to + s + lanes, right);
    }
  }

  // Adds up columns.  top and sums are those of the rows by now.
  void add_columns(const Desk<Acc>& desk, const Acc* top, const Acc* sums, const Columns& columns) const {
    for (int start = desk.any.begin / kBlock * kBlock; start < desk.any.end; start += kBlock) {
      Range block = {start, smaller(start + kBlock, int(desk.any.end))};
      for (int i = 0; i < desk.count; ++i) {
        const Group<Acc>& group = desk.groups[i];
        Range range = visible(group, block);
        if (range.empty()) continue;
        Acc factors[kRows];
        for (int r = 0; r < group.size; ++r) {
          Acc total = sum<Acc>(load(sums + (i * kRows + r) * lanes)), now = top[i * kQueries<Acc> + r];
          // A block in which a row sees nothing may lie above its maximum, and has weights 0.
          Acc drop = base(i, block)[r] - now;
          factors[r] = total == 0 || drop > 0 ? Acc(0) : exp<Acc>(all(drop))[0] / total;
        }
        with_size(group.size, [&]<int M>() {
          int width = int(round_up(range.end - range.begin, kPanel<Acc>));
          add<M>(tile(i, block), width, factors, received + (range.begin - block.begin));
        });
      }
      columns.add(block, received);
    }
  }

  // −Σ p ln p over the keys of a row, in nats, from what it has seen: total, top, and a sink of −∞ where there is none.
  Acc entropy(int row, Acc total, Acc log_total, Acc top, Acc sink) const {
    if (total == 0) return 0;
    Acc found = log_total - sum<Acc>(load(spread + row * lanes)) / total;
    // The sink was counted as a key.
    if (Acc share = exp<Acc>(all(sink - top))[0] / total; share != 0) found += share * (sink - top - log_total);
    return entropy_of(found);
  }
};

}  // namespace overt::OVERT_LEVEL
