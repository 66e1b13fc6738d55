// Threads and scratch memory of one call.
#pragma once
#include <stdlib.h>

#include "lane.h"
#include "pool.h"
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif
#if defined(OVERT_TILES)
#include "amx.h"
#endif

namespace overt::OVERT_LEVEL {

// Hands out cache-aligned pieces of one allocation.  Without memory it only adds up what would be needed.
struct Arena {
  char* memory = nullptr;
  Index used = 0;

  template <class T> void take(T*& piece, Index count) {
    const Index bytes = count * Index(sizeof(T)), room = round_up(bytes + kGap, 64);
    if (memory) {
      piece = reinterpret_cast<T*>(memory + used);
#if defined(__SANITIZE_ADDRESS__)
      // Whoever runs over the end of a piece is found out, as if each were an allocation of its own.
      ASAN_POISON_MEMORY_REGION(memory + used + bytes, std::size_t(room - bytes));
#endif
    }
    used += room;
  }

#if defined(__SANITIZE_ADDRESS__)
  static constexpr Index kGap = 64;
#else
  static constexpr Index kGap = 0;
#endif
};

// What a call has allocated is kept for the next one, up to this size: fresh pages cost a fault each.
#if defined(__SANITIZE_ADDRESS__)
constexpr Index kSpareBytes = -1;
#else
constexpr Index kSpareBytes = 16 << 20;
#endif
// After a pass that only looks at weights, less: what it takes comes on top of what somebody's model takes later.
constexpr Index kSpareOfPasses = kSpareBytes < 1 << 20 ? kSpareBytes : 1 << 20;
inline void* spare = nullptr;

// Memory that knows its size.
struct alignas(64) Block {
  Index bytes;

  char* memory() { return reinterpret_cast<char*>(this + 1); }

  static Block* take(Index bytes) {
    auto* block = static_cast<Block*>(__atomic_exchange_n(&spare, nullptr, __ATOMIC_ACQ_REL));
    if (block && block->bytes >= bytes) return block;
    free(block);
    bytes = round_up(bytes, 64);
    block = static_cast<Block*>(aligned_alloc(64, sizeof(Block) + bytes));
    if (block) block->bytes = bytes;
    return block;
  }
  static void give_back(Block* block, Index most) {
    free(block && block->bytes <= most ? __atomic_exchange_n(&spare, block, __ATOMIC_ACQ_REL) : block);
  }
};

// The only allocation of a call: what all threads share, then one workspace for each.
// `Shared` and `Workspace` name their pieces in place(Arena&, plan).
template <class Shared, class Workspace, class Plan> struct Scratch {
  Block* block;
  Index most_spare = kSpareBytes;
  char* memory = nullptr;
  Index shared_bytes, thread_bytes;
  const Plan& plan;

  // Leaves in run.threads how many there will be, at most.
  Scratch(const Plan& plan, Run& run) : plan(plan) {
    run.threads = hire(run.threads);
    Arena shared, thread;
    Shared().place(shared, plan);
    Workspace().place(thread, plan);
    shared_bytes = shared.used;
    thread_bytes = thread.used;
    Index bytes = shared_bytes + run.threads * thread_bytes;
    block = Block::take(bytes);
    memory = block ? block->memory() : nullptr;
    if (memory && run.poison) __builtin_memset(memory, 0xff, bytes);
  }
  ~Scratch() { Block::give_back(block, most_spare); }
  Scratch(const Scratch&) = delete;

  Shared shared() const {
    Arena arena{memory};
    Shared pieces;
    pieces.place(arena, plan);
    return pieces;
  }
  Workspace workspace(int thread) const {
    Arena arena{memory + shared_bytes + thread * thread_bytes};
    Workspace pieces;
    pieces.place(arena, plan);
    return pieces;
  }
};

// Tasks of uneven cost: whoever is free takes the next.  There are none once the call is stopped.
struct Queue {
  Index next = 0;
  Index take() { return stopped() ? PTRDIFF_MAX : __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED); }
};

// One parallel region: body(thread) on some of so many threads, thread 0 among them.
template <class Body> OVERT_INLINE void in_parallel(int threads, const Body& body) {
  auto work = [](const void* argument, int thread) {
#if defined(OVERT_TILES)
    TileRegisters registers;
#endif
    (*static_cast<const Body*>(argument))(thread);
  };
  work_together(threads, work, &body);
}

// Inside in_parallel: nobody goes on before everybody has come here.
OVERT_INLINE void wait_for_all(int threads) {
  if (threads > 1) wait_for_others();
}

}  // namespace overt::OVERT_LEVEL
