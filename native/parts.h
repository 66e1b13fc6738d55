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

// Calls body(task) for each task of a part.
template <class Acc, class Body> void each_task(const Plan<Acc>& plan, Index part, const Body& body) {
  Index parts = parts_of(plan), head = part / parts;
  for (Index block = part % parts; block < plan.blocks && !stopped(); block += parts)
    body(head * plan.blocks + block);
}

// received (B, H, S) of one head from the sums of its parts.
template <class Acc> void join_parts(const Plan<Acc>& plan, const double* sums, Index head, Acc* received) {
  const Index parts = parts_of(plan), S = plan.p.S;
  sums += head * parts * S;
  for (Index s = 0; s < S; ++s) {
    double total = 0;
    for (Index i = 0; i < parts; ++i) total += plan.rows ? sums[i * S + s] : 0;
    received[head * S + s] = Acc(total);
  }
}

// A weight may have been rounded to more than 1, and minus a sum of nothing is −0: neither is an entropy.  NaN stays.
template <class Acc> OVERT_INLINE Acc entropy_of(Acc found) { return found <= 0 ? Acc(0) : found; }

// Adds what the keys of one block have received from the rows of one task, which is cleared for the next.
template <class Acc> void add_block(Range block, Acc* received, double* sums) {
  for (int s = block.begin; s < block.end; ++s) sums[s] += double(received[s - block.begin]);
  __builtin_memset(received, 0, kBlock * sizeof(Acc));
}

}  // namespace overt::OVERT_LEVEL
