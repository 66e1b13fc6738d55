// Threads that all calls share: a few of our own, which sleep between calls, and the caller, who never waits for one that
// has not come.  Compiled once, for all levels.
#pragma once
#include <atomic>

namespace overt {

// Threads that a call uses unless it says otherwise: OMP_NUM_THREADS, or the CPUs that the process may run on.
int default_threads();

// More are not worth having: as many as there are CPUs, or some on a small machine.
int most_threads();

// One call of a kernel, on the thread that asked for it, while it lives.
class Call {
 public:
  // In so many nanoseconds the call wants to be asked again.
  using Pause = long long;
  static constexpr Pause kStop = 0, kNeverAgain = 1LL << 62;

  // ask() is called on this thread now and then, outside the kernel's arithmetic mode.  It may run anything, even another
  // call or fork.  Null: the call is so short that nobody asks.
  explicit Call(Pause (*ask)());
  ~Call();
  Call(const Call&) = delete;

  // What the kernel has written is then no result.
  bool stopped() const { return stopped_; }
  // The process was forked while several threads were at it, and this is the child, which has only one.
  bool orphaned() const { return orphaned_; }

  void ask_in_time();

 private:
  Pause (*ask_)();
  long long next_;
  std::atomic<bool> stopped_{false};
  bool orphaned_ = false;
};

// Starts what threads are missing.  How many a call may count on, itself included: at least 1, at most `wanted`, and
// fewer where the system has no more.
int hire(int wanted);

// Runs body(argument, thread) as thread 0, and as threads 1, 2, … below `threads` on whoever is free before that returns.
// They may come late or never: what is to be done is taken from queues.  Subnormal numbers are 0 meanwhile: where a row's
// weights fall off over some hundred powers of two, the CPU would take ten times as long.
void work_together(int threads, void (*body)(const void* argument, int thread), const void* argument);

// The rest is for bodies.

// Nobody goes on before everybody who is there has come here; those who come to the work later pass.
void wait_for_others();

// Whether the call is to end, with whatever it has.  To be asked every few milliseconds.
bool stopped();

// Goes on when *turn is `mine`, or the call is stopped.
void wait_for_turn(const int* turn, int mine);
void pass_turn(int* turn, int next);

}  // namespace overt
