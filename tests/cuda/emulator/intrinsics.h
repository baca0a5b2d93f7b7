/* CUDA's functions of one thread. */
#ifndef EMULATOR_INTRINSICS_H
#define EMULATOR_INTRINSICS_H

#include <chrono>
#include <cstring>
#include <math.h> /* not cmath: kernels call isnan(), not std::isnan() */

#include "emulator.h"

namespace emulator {

template <typename To, typename From> inline To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

} // namespace emulator

#define EMULATOR_VECTORS(type, name)                                                                                   \
    inline name##1 make_##name##1(type x) {                                                                            \
        return {x};                                                                                                    \
    }                                                                                                                  \
    inline name##2 make_##name##2(type x, type y) {                                                                    \
        return {x, y};                                                                                                 \
    }                                                                                                                  \
    inline name##3 make_##name##3(type x, type y, type z) {                                                            \
        return {x, y, z};                                                                                              \
    }                                                                                                                  \
    inline name##4 make_##name##4(type x, type y, type z, type w) {                                                    \
        return {x, y, z, w};                                                                                           \
    }
EMULATOR_VECTORS(signed char, char)
EMULATOR_VECTORS(unsigned char, uchar)
EMULATOR_VECTORS(short, short)
EMULATOR_VECTORS(unsigned short, ushort)
EMULATOR_VECTORS(int, int)
EMULATOR_VECTORS(unsigned, uint)
EMULATOR_VECTORS(long long, longlong)
EMULATOR_VECTORS(unsigned long long, ulonglong)
EMULATOR_VECTORS(float, float)
EMULATOR_VECTORS(double, double)
#undef EMULATOR_VECTORS

/* ---- floating point, rounded to nearest */

inline float __fmaf_rn(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
inline double __fma_rn(double a, double b, double c) {
    return __builtin_fma(a, b, c);
}
inline float __fadd_rn(float a, float b) {
    return a + b;
}
inline float __fsub_rn(float a, float b) {
    return a - b;
}
inline float __fmul_rn(float a, float b) {
    return a * b;
}
inline float __fdiv_rn(float a, float b) {
    return a / b;
}
inline float __frcp_rn(float a) {
    return 1.0F / a;
}
inline float __fsqrt_rn(float a) {
    return __builtin_sqrtf(a);
}
inline double __dadd_rn(double a, double b) {
    return a + b;
}
inline double __dmul_rn(double a, double b) {
    return a * b;
}
inline double __ddiv_rn(double a, double b) {
    return a / b;
}
inline double __dsqrt_rn(double a) {
    return __builtin_sqrt(a);
}
inline float __int2float_rn(int a) {
    return (float)a;
}
inline float __uint2float_rn(unsigned a) {
    return (float)a;
}
inline int __float2int_rn(float a) {
    return (int)__builtin_rintf(a);
}
inline int __float2int_rz(float a) {
    return (int)a;
}

/* ---- bits */

inline unsigned __float_as_uint(float a) {
    return emulator::bits_as<unsigned>(a);
}
inline int __float_as_int(float a) {
    return emulator::bits_as<int>(a);
}
inline float __uint_as_float(unsigned a) {
    return emulator::bits_as<float>(a);
}
inline float __int_as_float(int a) {
    return emulator::bits_as<float>(a);
}
inline double __longlong_as_double(long long a) {
    return emulator::bits_as<double>(a);
}
inline long long __double_as_longlong(double a) {
    return emulator::bits_as<long long>(a);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((unsigned long long)a * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline int __popc(unsigned a) {
    return __builtin_popcount(a);
}
inline int __popcll(unsigned long long a) {
    return __builtin_popcountll(a);
}
inline int __ffs(int a) {
    return __builtin_ffs(a);
}
inline int __ffsll(long long a) {
    return __builtin_ffsll(a);
}
inline int __clz(int a) {
    return a == 0 ? 32 : __builtin_clz((unsigned)a);
}
inline int __clzll(long long a) {
    return a == 0 ? 64 : __builtin_clzll((unsigned long long)a);
}
inline unsigned __brev(unsigned a) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++) reversed |= (a >> i & 1) << (31 - i);
    return reversed;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selectors) {
    const unsigned long long bytes = (unsigned long long)b << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned selector = selectors >> 4 * i & 0xf, byte = (unsigned)(bytes >> 8 * (selector & 7)) & 0xff;
        result |= (selector & 8 ? (byte & 0x80 ? 0xffU : 0U) : byte) << 8 * i;
    }
    return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}

/* ---- the smaller, the larger */

#define EMULATOR_SMALLER_AND_LARGER(type)                                                                              \
    inline type min(type a, type b) {                                                                                  \
        return b < a ? b : a;                                                                                          \
    }                                                                                                                  \
    inline type max(type a, type b) {                                                                                  \
        return a < b ? b : a;                                                                                          \
    }
EMULATOR_SMALLER_AND_LARGER(int)
EMULATOR_SMALLER_AND_LARGER(unsigned)
EMULATOR_SMALLER_AND_LARGER(long)
EMULATOR_SMALLER_AND_LARGER(unsigned long)
EMULATOR_SMALLER_AND_LARGER(long long)
EMULATOR_SMALLER_AND_LARGER(unsigned long long)
#undef EMULATOR_SMALLER_AND_LARGER
inline unsigned min(unsigned a, int b) {
    return min(a, (unsigned)b);
}
inline unsigned min(int a, unsigned b) {
    return min((unsigned)a, b);
}
inline unsigned max(unsigned a, int b) {
    return max(a, (unsigned)b);
}
inline unsigned max(int a, unsigned b) {
    return max((unsigned)a, b);
}
inline float min(float a, float b) {
    return __builtin_fminf(a, b);
}
inline float max(float a, float b) {
    return __builtin_fmaxf(a, b);
}
inline double min(double a, double b) {
    return __builtin_fmin(a, b);
}
inline double max(double a, double b) {
    return __builtin_fmax(a, b);
}

/* ---- memory */

template <typename T> inline T __ldg(const T *at) {
    return *at;
}
template <typename T> inline T __ldcg(const T *at) {
    return *at;
}
template <typename T> inline T __ldcs(const T *at) {
    return *at;
}
template <typename T> inline void __stcg(T *at, T value) {
    *at = value;
}
template <typename T> inline void __stcs(T *at, T value) {
    *at = value;
}
inline void __threadfence() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_block() {
}
inline void __threadfence_system() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

namespace emulator {

/* *at = change(*at); returns what was there. */
template <typename T, typename Change> inline T atomically(T *at, Change change) {
    T before, after;
    __atomic_load(at, &before, __ATOMIC_SEQ_CST);
    do after = change(before);
    while (!__atomic_compare_exchange(at, &before, &after, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return before;
}

} // namespace emulator

#define EMULATOR_ATOMIC(name, result)                                                                                  \
    template <typename T> inline T name(T *at, std::common_type_t<T> value) {                                          \
        return emulator::atomically(at, [=](T here) { return (T)(result); });                                          \
    }
EMULATOR_ATOMIC(atomicAdd, here + value)
EMULATOR_ATOMIC(atomicSub, here - value)
EMULATOR_ATOMIC(atomicExch, ((void)here, value))
EMULATOR_ATOMIC(atomicMin, value < here ? value : here)
EMULATOR_ATOMIC(atomicMax, here < value ? value : here)
EMULATOR_ATOMIC(atomicAnd, here &value)
EMULATOR_ATOMIC(atomicOr, here | value)
EMULATOR_ATOMIC(atomicXor, here ^ value)
EMULATOR_ATOMIC(atomicInc, here >= value ? 0 : here + 1)
#undef EMULATOR_ATOMIC
template <typename T> inline T atomicCAS(T *at, std::common_type_t<T> expected, std::common_type_t<T> value) {
    return emulator::atomically(at, [=](T here) { return here == expected ? value : here; });
}

inline long long clock64() {
    return (long long)std::chrono::steady_clock::now().time_since_epoch().count();
}
inline void __nanosleep(unsigned) {
}
[[noreturn]] inline void __trap() {
    emulator::die("__trap()");
}

#endif
