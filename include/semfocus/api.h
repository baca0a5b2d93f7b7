/* What surrounds the declarations of every public header: C linkage under C++, and names that the shared library
 * exports. What stands outside of a pair of these is internal, and hidden.
 *
 * Thread safety, unless a header says otherwise: threads may use different objects at the same time, also two handles
 * of the same store folder; one object is used by one thread at a time. Functions that take no object (tables of tasks,
 * mechanisms, settings and figures, parsing, versions) may be called from any thread. The message of a failure
 * (sf_message) belongs to the thread whose call failed. A callback may come from another thread than the one that made
 * the call, and must not destroy or change the object that calls it. */
#ifndef SEMFOCUS_API_H
#define SEMFOCUS_API_H

/* A request to stop, which long work looks at again and again. The caller owns it, sets it to anything but 0 from any
 * thread or signal handler, and leaves it set until the call that looks at it has returned. */
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
