/* CUDA's functions of a warp, and __syncthreads. */
#ifndef EMULATOR_WARP_H
#define EMULATOR_WARP_H

#include "emulator.h"

namespace emulator {

template <typename T> struct Shuffled {
    T value;
    uint32_t source; /* lane */
};

template <typename T> inline void shuffle(void *const *lanes, uint32_t came) {
    T values[warpSize];
    for (uint32_t left = came; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        values[lane] = static_cast<Shuffled<T> *>(lanes[lane])->value;
    }
    for (uint32_t left = came; left != 0; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        Shuffled<T> *const own = static_cast<Shuffled<T> *>(lanes[lane]);
        if (!(came >> own->source & 1))
            die("lane %d reads lane %u in a shuffle that the latter does not take part in", lane, own->source);
        own->value = values[own->source];
    }
}

template <typename T> inline T shuffled(uint32_t mask, const char *name, T value, uint32_t source) {
    Shuffled<T> own = {value, source};
    meet(mask, name, shuffle<T>, &own);
    return own.value;
}

/* What all lanes of the mask get: `own` of each, combined in ascending order. */
template <typename T, T (*COMBINE)(T, T)> inline void reduce(void *const *lanes, uint32_t came) {
    T result = *static_cast<T *>(lanes[__builtin_ctz(came)]);
    for (uint32_t left = came & (came - 1); left != 0; left &= left - 1)
        result = COMBINE(result, *static_cast<T *>(lanes[__builtin_ctz(left)]));
    for (uint32_t left = came; left != 0; left &= left - 1) *static_cast<T *>(lanes[__builtin_ctz(left)]) = result;
}

template <typename T, T (*COMBINE)(T, T)> inline T reduced(uint32_t mask, const char *name, T value) {
    meet(mask, name, reduce<T, COMBINE>, &value);
    return value;
}

template <typename T> inline T sum(T a, T b) {
    return a + b;
}
template <typename T> inline T smaller(T a, T b) {
    return b < a ? b : a;
}
template <typename T> inline T larger(T a, T b) {
    return a < b ? b : a;
}
template <typename T> inline T conjunction(T a, T b) {
    return a & b;
}
template <typename T> inline T disjunction(T a, T b) {
    return a | b;
}
template <typename T> inline T difference(T a, T b) {
    return a ^ b;
}

/* The last lane of the calling lane's group of `width`. */
inline uint32_t last_of_group(int width) {
    if (width < 1 || width > warpSize || (width & (width - 1)) != 0) die("a shuffle's width is %d", width);
    return lane_number() | ((uint32_t)width - 1);
}

} // namespace emulator

template <typename T> inline T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
    const uint32_t last = emulator::last_of_group(width), inside = (uint32_t)width - 1;
    return emulator::shuffled(mask, "__shfl_sync", value, (last & ~inside) | ((uint32_t)source & inside));
}
template <typename T> inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
    const uint32_t lane = emulator::lane_number(), first = emulator::last_of_group(width) + 1 - (uint32_t)width;
    return emulator::shuffled(mask, "__shfl_up_sync", value, lane >= first + delta ? lane - delta : lane);
}
template <typename T> inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
    const uint32_t lane = emulator::lane_number(), last = emulator::last_of_group(width);
    return emulator::shuffled(mask, "__shfl_down_sync", value, lane + delta <= last ? lane + delta : lane);
}
template <typename T> inline T __shfl_xor_sync(unsigned mask, T value, int other, int width = warpSize) {
    const uint32_t lane = emulator::lane_number(), source = lane ^ (uint32_t)other;
    return emulator::shuffled(mask, "__shfl_xor_sync", value, source <= emulator::last_of_group(width) ? source : lane);
}

inline void __syncwarp(unsigned mask = 0xffffffffU) {
    emulator::meet(
        mask, "__syncwarp", [](void *const *, uint32_t) {}, nullptr);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    const unsigned own = predicate != 0 ? 1U << emulator::lane_number() : 0;
    return emulator::reduced<unsigned, emulator::disjunction>(mask, "__ballot_sync", own);
}
inline int __any_sync(unsigned mask, int predicate) {
    return emulator::reduced<int, emulator::disjunction>(mask, "__any_sync", predicate != 0);
}
inline int __all_sync(unsigned mask, int predicate) {
    return emulator::reduced<int, emulator::conjunction>(mask, "__all_sync", predicate != 0);
}
template <typename T> inline T __reduce_add_sync(unsigned mask, T value) {
    return emulator::reduced<T, emulator::sum>(mask, "__reduce_add_sync", value);
}
template <typename T> inline T __reduce_min_sync(unsigned mask, T value) {
    return emulator::reduced<T, emulator::smaller>(mask, "__reduce_min_sync", value);
}
template <typename T> inline T __reduce_max_sync(unsigned mask, T value) {
    return emulator::reduced<T, emulator::larger>(mask, "__reduce_max_sync", value);
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value) {
    return emulator::reduced<unsigned, emulator::conjunction>(mask, "__reduce_and_sync", value);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value) {
    return emulator::reduced<unsigned, emulator::disjunction>(mask, "__reduce_or_sync", value);
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value) {
    return emulator::reduced<unsigned, emulator::difference>(mask, "__reduce_xor_sync", value);
}

inline void __syncthreads() {
    emulator::barrier_sync(0, 0);
}

#endif
