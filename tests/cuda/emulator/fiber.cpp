#include "fiber.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "emulator.h"

#ifdef EMULATOR_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

/* Saves what a call has to preserve on the stack and goes on with what was saved on the other. */
extern "C" void emulator_switch(void **save, void *load);

#if defined(__x86_64__)
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch, @function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulator_switch, .-emulator_switch
)");
enum { SAVED_WORDS = 8, RETURN_WORD = 6 }; /* the last: as if the function had been called from somewhere */
#elif defined(__aarch64__)
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch, %function
emulator_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size emulator_switch, .-emulator_switch
)");
enum { SAVED_WORDS = 20, RETURN_WORD = 11 };
#else
#error "the emulator has no switch of stacks for this processor"
#endif

namespace emulator {

#ifdef EMULATOR_ASAN
enum { STACK_BYTES = 256 * 1024 };
#else
enum { STACK_BYTES = 64 * 1024 };
#endif
enum { COLOURS = 32, COLOUR_BYTES = 192 };

Fiber *create_fiber(size_t number) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *const memory =
        mmap(nullptr, page + STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) die("no memory for a stack");
    return new Fiber{nullptr, static_cast<char *>(memory) + page, STACK_BYTES - number % COLOURS * COLOUR_BYTES,
                     nullptr};
}

void reset_fiber(Fiber *fiber, void (*function)()) {
    const uintptr_t top = ((uintptr_t)fiber->bottom + fiber->size) / 16 * 16;
    uintptr_t *const saved = reinterpret_cast<uintptr_t *>(top) - SAVED_WORDS;
    for (int i = 0; i < SAVED_WORDS; i++) saved[i] = 0;
    saved[RETURN_WORD] = reinterpret_cast<uintptr_t>(function);
    fiber->stack_pointer = saved;
    fiber->fake_stack = nullptr;
}

void switch_fiber(Fiber *from, Fiber *to) {
#ifdef EMULATOR_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->bottom, to->size);
#endif
    emulator_switch(&from->stack_pointer, to->stack_pointer);
#ifdef EMULATOR_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, nullptr, nullptr);
#endif
}

void arrive_on_fiber() {
#ifdef EMULATOR_ASAN
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

void adopt_stack(Fiber *fiber) {
    pthread_attr_t attributes;
    void *bottom;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0 ||
        pthread_attr_getstack(&attributes, &bottom, &fiber->size) != 0)
        die("the stack of a thread is not known");
    fiber->bottom = static_cast<char *>(bottom);
    pthread_attr_destroy(&attributes);
}

} // namespace emulator
