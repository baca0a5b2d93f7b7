/* The arithmetic files of this folder are compiled once per instruction set (SF_ISA_SUFFIX names it); ISA(name) gives
 * each copy its own symbol. The widest set the machine has is picked at run time, see dispatch.c. */
#ifndef SF_KERNELS_CPU_ISA_H
#define SF_KERNELS_CPU_ISA_H

#define SF_JOIN_TOKENS(a, b) a##b
#define SF_JOIN(a, b)        SF_JOIN_TOKENS(a, b)
#define ISA(name)            SF_JOIN(name, SF_ISA_SUFFIX)

#endif
