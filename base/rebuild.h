/* How to get an optional part, at the end of a sentence: SF_REBUILD_WITH("HTTP"). */
#ifndef SF_BASE_REBUILD_H
#define SF_BASE_REBUILD_H

#ifdef SF_IS_PYTHON_PACKAGE /* built by pip: CMakeLists.txt */
#define SF_REBUILD_WITH(part) "SEMFOCUS_" part "=ON pip install . in the source tree"
#else
#define SF_REBUILD_WITH(part) "configure and build again"
#endif

#endif
