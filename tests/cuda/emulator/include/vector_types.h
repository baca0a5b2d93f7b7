/* CUDA's vector types, for C and C++. */
#ifndef EMULATOR_VECTOR_TYPES_H
#define EMULATOR_VECTOR_TYPES_H

#define EMULATOR_VECTORS(type, name, pair, quadruple)                                                                  \
    typedef struct name##1 {                                                                                           \
        type x;                                                                                                        \
    }                                                                                                                  \
    name##1;                                                                                                           \
    typedef struct __attribute__((aligned(pair))) name##2 {                                                            \
        type x, y;                                                                                                     \
    }                                                                                                                  \
    name##2;                                                                                                           \
    typedef struct name##3 {                                                                                           \
        type x, y, z;                                                                                                  \
    }                                                                                                                  \
    name##3;                                                                                                           \
    typedef struct __attribute__((aligned(quadruple))) name##4 {                                                       \
        type x, y, z, w;                                                                                               \
    }                                                                                                                  \
    name##4

EMULATOR_VECTORS(signed char, char, 2, 4);
EMULATOR_VECTORS(unsigned char, uchar, 2, 4);
EMULATOR_VECTORS(short, short, 4, 8);
EMULATOR_VECTORS(unsigned short, ushort, 4, 8);
EMULATOR_VECTORS(int, int, 8, 16);
EMULATOR_VECTORS(unsigned, uint, 8, 16);
EMULATOR_VECTORS(long long, longlong, 16, 16);
EMULATOR_VECTORS(unsigned long long, ulonglong, 16, 16);
EMULATOR_VECTORS(float, float, 8, 16);
EMULATOR_VECTORS(double, double, 16, 16);
#undef EMULATOR_VECTORS

typedef struct dim3 {
    unsigned x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned across = 1, unsigned down = 1, unsigned deep = 1) : x(across), y(down), z(deep) {
    }
    constexpr dim3(uint3 from) : x(from.x), y(from.y), z(from.z) {
    }
    constexpr operator uint3() const {
        return {x, y, z};
    }
#endif
} dim3;

#endif
