// What each key receives is a sum over all rows of a head, which no single task holds.
#pragma once
#include "blocks.h"

namespace overt::OVERT_LEVEL {

// Tasks of passes that add up columns are cut as for this many threads, whatever there are, and their sums are joined in
// order at the end: nothing depends on threads.
constexpr int kFairThreads = 16, kMostParts = 64;

// The tasks of a head are dealt to this many parts, each with sums of its own.
template <class Acc> Index parts_of(const Plan<Acc>& plan) {
  return larger<Index>(1, smaller(plan.blocks, kMostParts / larger<Index>(1, plan.p.B * plan.p.H)));
}
template <class Acc> Index all_parts(const Plan<Acc>& plan) { return plan.p.B * plan.p.H * parts_of(plan); }

// Calls body(task) for each task of a part: neighbours, which see similar keys.
template <class Acc, class Body> void each_task(const Plan<Acc>& plan, Index part, const Body& body) {
  Index parts = parts_of(plan), head = part / parts;
  part %= parts;
  for (Index block = part * plan.blocks / parts; block < (part + 1) * plan.blocks / parts && !stopped(); ++block)
    body(head * plan.blocks + block);
}

// The sums of a part.  They exist as far as its rows see, since fresh memory that nobody writes to is none: with a window,
// those of a million keys take as much as those of one part.
struct Columns {
  double* sums;  // [S]
  Range* seen;

  void start() const { *seen = {0, 0}; }

  // From now on these keys have sums, and all between them and others that have.
  void see(Range keys) const {
    if (keys.empty()) return;
    if (seen->empty()) *seen = {keys.begin, keys.begin};
    if (keys.begin < seen->begin) clear({keys.begin, seen->begin}), seen->begin = keys.begin;
    if (keys.end > seen->end) clear({seen->end, keys.end}), seen->end = keys.end;
  }

  // Adds what the keys of one block have received from the rows of one task, which is cleared for the next.
  template <class Acc> void add(Range block, Acc* received) const {
    see(block);
    for (int s = block.begin; s < block.end; ++s) sums[s] += double(received[s - block.begin]);
    __builtin_memset(received, 0, kBlock * sizeof(Acc));
  }

 private:
  void clear(Range keys) const { __builtin_memset(sums + keys.begin, 0, (keys.end - keys.begin) * sizeof(double)); }
};

// The sums of all parts.
struct Parts {
  double* sums = nullptr;  // [B · H][parts][S]
  Range* seen = nullptr;   // [B · H][parts]

  template <class Acc> void place(Arena& arena, const Plan<Acc>& plan) {
    arena.take(sums, all_parts(plan) * plan.p.S);
    arena.take(seen, all_parts(plan));
  }
  Columns columns(Index part, Index S) const { return {sums + part * S, seen + part}; }

  // received (B, H, S) of one head.
  template <class Acc> void join(const Plan<Acc>& plan, Index head, Acc* received) const {
    const Index parts = parts_of(plan);
    const int S = int(plan.p.S);
    for (int start = 0; start < S; start += kBlock) {
      Range block = {start, smaller(start + kBlock, S)};
      double totals[kBlock] = {};
      for (Index part = head * parts; part < (head + 1) * parts; ++part) {
        Range both = intersect(block, seen[part]);
        for (int s = both.begin; s < both.end; ++s) totals[s - start] += sums[part * S + s];
      }
      for (int s = block.begin; s < block.end; ++s) received[head * S + s] = Acc(totals[s - start]);
    }
  }
};

// A weight may have been rounded to more than 1, and minus a sum of nothing is −0: neither is an entropy.  NaN stays.
template <class Acc> OVERT_INLINE Acc entropy_of(Acc found) { return found <= 0 ? Acc(0) : found; }

}  // namespace overt::OVERT_LEVEL
