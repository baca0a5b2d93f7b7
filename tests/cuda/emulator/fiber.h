/* Stacks that take turns in one thread of the operating system. */
#ifndef EMULATOR_FIBER_H
#define EMULATOR_FIBER_H

#include <cstddef>

namespace emulator {

struct Fiber {
    void *stack_pointer; /* while it does not run */
    char *bottom;        /* of its stack */
    size_t size;
    void *fake_stack; /* AddressSanitizer's */
};

/* A stack with a guard page below it; fibers live until the program ends. `number` is any: it keeps the tops of stacks
 * from sharing cache lines. */
Fiber *create_fiber(size_t number);
/* Puts a fiber at the beginning of a function that never returns; it runs when it is switched to. */
void reset_fiber(Fiber *fiber, void (*function)());
/* Runs `to` until something switches back. `from` is the running one. */
void switch_fiber(Fiber *from, Fiber *to);
/* First call of a fiber's function. */
void arrive_on_fiber();
/* The stack that the calling thread came with. */
void adopt_stack(Fiber *fiber);

} // namespace emulator

#endif
