/* SF_API_BEGIN and SF_API_END enclose the declarations of every public header: they give C linkage under C++, and the
 * shared library exports the names between them. All other names are internal and hidden.
 *
 * Thread safety, unless a header says otherwise: threads may use different objects at the same time, also two handles
 * of the same store folder; one object is used by one thread at a time. Functions that take no object (tables of tasks,
 * mechanisms, settings and figures, parsing, versions) may be called from any thread. The message of a failure
 * (sf_message) belongs to the thread whose call failed. A callback may run on another thread than the call that it
 * belongs to, and must not destroy or change the object that calls it. */
#ifndef SEMFOCUS_API_H
#define SEMFOCUS_API_H

/* A request to stop, which long computations poll. The caller owns it, sets it to a nonzero value from any thread or
 * signal handler, and leaves it set until the call that polls it has returned. */
#ifdef __cplusplus
#include <atomic>
typedef std::atomic<int> sf_stop_flag;
#else
#include <stdatomic.h>
typedef atomic_int sf_stop_flag;
#endif

#ifdef __cplusplus
#define SF_API_BEGIN                                                                                                   \
    extern "C" {                                                                                                       \
    _Pragma("GCC visibility push(default)")
#define SF_API_END                                                                                                     \
    _Pragma("GCC visibility pop")                                                                                      \
    }
#else
#define SF_API_BEGIN _Pragma("GCC visibility push(default)")
#define SF_API_END   _Pragma("GCC visibility pop")
#endif

#endif
